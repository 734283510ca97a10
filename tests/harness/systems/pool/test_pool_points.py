"""Every fault strikes at every phase of a pool's work, and between the lines of its code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pool_plays import EXAMPLES, UP, of, outcomes, played

from killpoint.checkers.finding import hangs
from killpoint.runner.processes.target_agent import EXIT_FAULT
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import (
    EXECUTOR_PHASES,
    WORKER_PHASES,
    Call,
    Count,
    Fault,
    Point,
    PoolStart,
    PoolStop,
    Submit,
    Wait,
    WaitBlocked,
)
from killpoint.search.case_run import CaseRun

METHODS = {
    "computing": "compute",
    "native": "native",
    "collective": "collective",
    "spinning": "spin",
    "replying-overflow": "flood",
}
FAULTS = ("kill", "exit", "raise", "sigterm", "sigint", "stop", "hold")


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        with Stage("pipe_pool:PoolTarget") as made:
            yield made


def at(phase: str, fault: str, role: str = "worker-1") -> Fault:
    return Fault(fault, role, Point("work", name=phase))


def struck(stage: Stage, fault: Fault, method: Any = "echo") -> Play:
    call = Call(method, size=300_000, timeout=0.4)
    steps = [fault, PoolStart(timeout=0.6), call, PoolStop(), Wait(within=20.0)]
    play = played(stage, *steps, shape={"grace": 0.1})
    assert play.unreached == []
    assert [(e.text("target"), e.text("where")) for e in of(play, "reached")] == [
        (fault.role, fault.at.name if fault.at else "")
    ]
    assert play.ledger.empty(), play.ledger.words()
    assert of(play, "hang") == []
    return play


def ends(play: Play, role: str) -> dict[str, int]:
    event = next(e for e in of(play, "gone") + of(play, "exit") if e.text("target") == role)
    return {key: event.number(key) for key in ("signal", "code") if key in event.data}


STRUCK = [
    (phase, fault)
    for phase in WORKER_PHASES
    for fault in FAULTS
    if phase != "collective" and (fault == "kill" or phase in ("computing", "native"))
]
"""The kill matrix has every fault at every phase."""


@pytest.mark.parametrize(("phase", "fault"), STRUCK)
def test_a_fault_strikes_a_worker_at_its_phase(stage: Stage, phase: str, fault: str) -> None:
    play = struck(stage, at(phase, fault), METHODS.get(phase, "echo"))
    end = ends(play, "worker-1")
    if fault in ("kill", "exit"):
        assert end == ({"signal": 9} if fault == "kill" else {"code": EXIT_FAULT})
    elif fault == "raise":
        assert [e.text("where") for e in of(play, "raised")] == [phase]
    elif fault == "stop":
        assert end == {"signal": 9}, "it was not stopped: it left before it had to be killed"
    elif fault == "hold" and phase == "native":
        assert end == {"signal": 9}, "SIGTERM was handled in code that holds the interpreter"
    elif fault in ("sigterm", "sigint"):
        assert end == {"code": 1}, "the target's own handler ends it so"


@pytest.mark.parametrize("phase", EXECUTOR_PHASES)
@pytest.mark.parametrize("fault", ["kill", "raise", "sigint"])
def test_a_fault_strikes_the_executor_at_its_phase(stage: Stage, phase: str, fault: str) -> None:
    play = struck(stage, at(phase, fault, "executor"))
    if fault == "raise":
        assert outcomes(play, "call-done") == ["injected"]
    else:
        assert ends(play, "executor") == {"signal": 9 if fault == "kill" else 2}


def test_all_workers_add_up_and_one_is_struck_between_the_halves(stage: Stage) -> None:
    kill = at("collective", "kill")
    first = [Call("collective", timeout=60.0), Wait(within=90.0)]
    shape = {"start": "fork"}  # whose workers find torch imported
    play = played(stage, *UP, *first, kill, Call("collective"), Wait(), shape=shape)
    assert outcomes(play, "call-done") == ["ok", "peer-died"]
    assert play.unreached == []


def test_a_held_worker_stands_still_while_its_executor_dies(stage: Stage) -> None:
    hold = at("native", "hold")
    steps = [*UP, hold, Submit("native"), WaitBlocked(("worker-1",)), Fault("kill", "executor")]
    play = played(stage, *steps)
    held, killed = of(play, "reached")[0].t, of(play, "intent")[1].t
    gone = {e.text("target"): e for e in of(play, "gone")}
    assert held < killed < gone["worker-1"].t
    assert gone["worker-1"].number("signal") == 9
    assert play.ledger.empty(), play.ledger.words()


def test_a_held_worker_goes_on_when_it_is_told_to(stage: Stage) -> None:
    steps = [at("computing", "hold"), Call("compute", timeout=9.0), WaitBlocked(("worker-1",))]
    play = played(stage, *UP, *steps, Fault("continue", "worker-1"), Wait())
    assert outcomes(play, "call-done") == ["ok"]


def test_lines_of_a_worker_are_counted_and_struck_in_order(stage: Stage) -> None:
    counts = [Count("worker-1", Point("start")), Count("worker-1", Point("serve"))]
    play = played(stage, *counts, *UP, Call(timeout=9.0), Call(timeout=9.0), PoolStop(), Wait())
    counted = {e.text("op"): e.number("count") for e in of(play, "lines", "worker-1")}
    assert counted == {"start": 6, "serve": 5}
    for op, line, outcome in (("start", 0, "peer-died"), ("serve", 0, "peer-died")):
        kill = Fault("kill", "worker-1", Point(op, line=line))
        play = played(stage, kill, *UP, Call(timeout=9.0), Wait())
        assert "pipe_pool.py:" in of(play, "reached")[0].text("where")
        last = of(play, "pool-started")[0] if op == "start" else of(play, "call-done")[0]
        assert last.text("outcome") == outcome


def test_a_hung_executor_is_told_with_what_its_workers_are_doing(stage: Stage) -> None:
    steps = [*UP, at("computing", "stop"), Call("compute"), Wait(within=0.4)]
    play = played(stage, *steps)
    (violation,) = hangs(play.history)
    assert "executor still waited in call" in violation.cause
    assert "it waits for worker-1, stopped" in violation.cause
    assert "; worker-1 is stopped in serve (pipe_pool.py" in violation.cause
    assert "; worker-0 waits in" in violation.cause


def test_who_is_struck_by_a_signal_that_it_may_handle_is_no_trouble_of_ours(stage: Stage) -> None:
    case_run = CaseRun("L1/x", stage, seed=0, full=False, folder=None)
    struck_by = at("asking", "sigint", "executor")
    steps = [*UP, struck_by, Call(timeout=5.0), Wait()]
    shape = played(stage, *steps).scenario
    outcome = case_run.judge(lambda each: each.play(shape) and None)
    assert (outcome.outcome, outcome.struck) == ("held", 1), outcome.cause
