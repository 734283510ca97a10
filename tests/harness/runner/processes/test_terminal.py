"""A pool's program at a terminal: keys reach the whole job, and what it leaves gets no hang-up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pool_plays import EXAMPLES, UP, of, outcomes, played

from killpoint.runner.stage import Play, Stage
from killpoint.scenario import Call, Fault, Point, PoolStart, PoolStop, Press, Wait, WaitBlocked


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        with Stage("pipe_pool:PoolTarget") as made:
            yield made


def sat(stage: Stage, *steps: Any, **more: Any) -> Play:
    play = played(stage, *steps, terminal=True, **more)
    assert play.unreached == []
    assert of(play, "hang") == []
    assert play.ledger.empty(), play.ledger.words()
    return play


def end(play: Play) -> int:
    (event,) = of(play, "exit")
    return event.number("signal")


def hold(phase: str) -> Fault:
    return Fault("hold", "worker-0", Point("work", name=phase))


def test_a_program_at_a_terminal_works_and_ends_like_any_other(stage: Stage) -> None:
    play = sat(stage, *UP, Call(timeout=9.0), PoolStop(), Wait())
    assert outcomes(play, "call-done") == ["ok"]
    assert (end(play), of(play, "exit")[0].number("code")) == (-1, 0)


def test_ctrl_c_reaches_the_program_and_its_workers(stage: Stage) -> None:
    keys = [Press("ctrl-c"), Wait()]
    play = sat(stage, *UP, Call(timeout=9.0), Wait(), *keys, shape={"grace": 5.0})
    assert end(play) == 2
    assert len(of(play, "interrupted")) == len(of(play, "pool-stopped")) == 1
    codes = {e.text("target"): e.number("code") for e in of(play, "gone")}
    assert codes.keys() == {"worker-0", "worker-1"}
    assert {*codes.values()} <= {0, 1}, "the example's workers leave by themselves"


@pytest.mark.parametrize("phase", ["loading", "leaving"])
def test_ctrl_c_is_pressed_while_a_worker_stands_at_a_phase(stage: Stage, phase: str) -> None:
    first = [PoolStart(timeout=9.0)] if phase == "loading" else [*UP, PoolStop()]
    pressed = [WaitBlocked(("worker-0",)), Press("ctrl-c"), Fault("continue", "worker-0"), Wait()]
    play = sat(stage, hold(phase), *first, *pressed)
    reached, key = of(play, "reached")[0], of(play, "intent")[1]
    assert (reached.text("where"), key.text("fault")) == (phase, "ctrl-c")
    assert reached.t < key.t < of(play, "interrupted")[0].t
    assert end(play) == 2


def test_a_second_ctrl_c_interrupts_the_shutdown(stage: Stage) -> None:
    inside = Fault("hold", "executor", Point("stop", line=3))
    keys = [Press("ctrl-c"), WaitBlocked(("executor",)), Press("ctrl-c"), Wait()]
    play = sat(stage, *UP, inside, *keys)
    assert end(play) == 2
    assert len(of(play, "interrupted")) == 1
    assert of(play, "pool-stopped") == []


def test_a_hang_up_ends_the_job(stage: Stage) -> None:
    play = sat(stage, *UP, Press("hang-up"), Wait())
    assert end(play) == 1
    assert {e.text("target") for e in of(play, "gone")} == {"worker-0", "worker-1"}


def test_a_job_that_is_stopped_and_brought_back_goes_on(stage: Stage) -> None:
    back = [Press("ctrl-z"), Press("fg"), Call(timeout=9.0), PoolStop(), Wait()]
    play = sat(stage, *UP, *back)
    assert [e.kind for e in play.history.of("job-stopped", "job-continues")] == [
        "job-stopped",
        "job-continues",
    ]
    assert outcomes(play, "call-done") == ["ok"]


def test_a_stopped_job_is_ended_by_a_hang_up(stage: Stage) -> None:
    play = sat(stage, *UP, Press("ctrl-z"), Press("hang-up"), Wait())
    assert end(play) == 1
