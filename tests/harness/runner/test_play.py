"""Real plays: what an unusual scenario does to the runner, not to the target."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from killpoint.checkers import CHECKERS
from killpoint.errors import KillpointError
from killpoint.runner import play_lock
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import (
    Attach,
    Cancel,
    Close,
    Count,
    Fault,
    Make,
    Message,
    Pause,
    Point,
    Ready,
    Receive,
    RingRead,
    RingWrite,
    Scenario,
    Send,
    Wait,
    WaitBlocked,
)
from killpoint.targets.protocol import QueueShape

_OPEN = [Make(), Attach(), Ready(timeout=10.0), Wait(within=15.0)]


def _scenario(*steps: Any) -> Scenario:
    return Scenario("R3/x", ["R3"], [*_OPEN, *steps], shape=QueueShape(readers=1))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage("refengine") as made:
        yield made


def _played(stage: Stage, *steps: Any) -> Play:
    play = stage.play(_scenario(*steps))
    stage.forget(play)
    return play


def _kinds(id: str, play: Play) -> list[str]:
    finding = CHECKERS[id](play.scenario, play.history, play.ledger)
    return [violation.kind for violation in finding.violations]


def test_an_ordinary_play_is_held_and_leaves_nothing(stage: Stage) -> None:
    play = _played(stage, Send([Message(repeat=5)]), Receive(5, timeout=5.0), Wait())
    assert play.stalled == ""
    assert _kinds("R3", play) == []
    assert play.ledger.empty(), play.ledger.words()


def test_who_plays_alone_plays_others_for_its_judgement_too(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play_lock, "_folder", lambda: tmp_path)
    played: list[Play] = []

    def confirm() -> None:
        with stage.without_others():
            played.append(stage.play_alone(_scenario()))
            played.append(stage.play(_scenario()))  # a control, as R9 has it
            played.append(stage.play_alone(_scenario()))

    thread = threading.Thread(target=confirm, daemon=True)
    thread.start()
    thread.join(60.0)
    assert [play.stalled for play in played] == [""] * 3
    for play in played:
        stage.forget(play)


def test_a_fault_that_strikes_at_a_line_is_recorded_where_it_struck(stage: Stage) -> None:
    fault = Fault("kill", "writer", Point("send", line=2))
    play = _played(stage, fault, Send([Message()]), Receive(2), Wait(("readers",), within=5.0))
    reached = play.history.first("reached")
    assert reached is not None
    assert reached.text("target") == "writer"
    assert play.unreached == []
    assert _kinds("Q6", play) == []


def test_a_point_that_is_never_reached_is_told(stage: Stage) -> None:
    fault = Fault("kill", "writer", Point("send", line=99_999))
    play = _played(stage, fault, Send([Message()]), Receive(1, timeout=5.0), Wait())
    assert play.unreached == ["kill of writer at line 99999 of send"]
    assert play.history.first("not-reached") is not None


def test_a_stopped_role_that_goes_on_does_what_it_was_told(stage: Stage) -> None:
    fault = Fault("stop", "writer", Point("send", line=2))
    steps = [fault, Send([Message()]), Receive(1, timeout=9.0), Pause(0.1)]
    play = _played(stage, *steps, Fault("continue", "writer"), Wait(within=9.0))
    assert _kinds("R3", play) == []


def test_an_order_given_while_a_role_stands_at_its_point_is_done_later(stage: Stage) -> None:
    steps = [Fault("stop", "writer", Point("send", line=5)), Send([Message()]), Wait(("writer",))]
    steps += [Close(("writer",)), Pause(0.1), Fault("continue", "writer"), Wait(within=2.0)]
    assert list(_played(stage, *steps).history.of("hang")) == []


def test_a_ring_write_of_any_size_is_read_back_equal(stage: Stage) -> None:
    steps = [RingWrite(size=128, timeout=2.0), Wait(), RingRead(timeout=2.0), Wait()]
    assert _kinds("R7", _played(stage, *steps)) == []


@pytest.mark.parametrize(
    "step",
    [
        Fault("kill", "readers"),
        Count("writer", Point("send", line=1)),
    ],
    ids=["fault-on-a-group", "count-with-a-line"],
)
def test_a_step_that_cannot_be_done_is_told_in_words(stage: Stage, step: Any) -> None:
    try:
        play = _played(stage, step, Send([Message()]), Receive(1, timeout=5.0), Wait(within=6.0))
    except KillpointError:
        return
    assert play.stalled == ""


def _stands_still(thread: threading.Thread, root: Path, seconds: float = 3.0) -> bool:
    """Whether the runner writes nothing for so long after its second cancel."""
    end = time.monotonic() + 40
    seen, since = -1, time.monotonic()
    while thread.is_alive() and time.monotonic() < end:
        thread.join(0.1)
        told = b"".join(path.read_bytes() for path in root.glob("*/director.jsonl"))
        if told.count(b'"cancel"') < 2 or len(told) != seen:
            seen, since = len(told), time.monotonic()
        elif time.monotonic() - since > seconds:
            return True
    return thread.is_alive()


def test_a_second_cancel_holds_nobody_up() -> None:
    with Stage("refengine") as own:
        cancel = Cancel(("reader-0",))
        steps = [Receive(1), WaitBlocked(("reader-0",)), cancel, Wait(within=3.0), cancel, Wait()]

        def play() -> None:
            with contextlib.suppress(KillpointError):
                own.play(_scenario(*steps))

        thread = threading.Thread(target=play, daemon=True)
        thread.start()
        held_up = _stands_still(thread, own.root)
        if held_up:  # let it go, by reading what it writes
            wake: Path = next(own.root.glob("*/reader-0.wake"))
            os.close(os.open(wake, os.O_RDONLY | os.O_NONBLOCK))
            thread.join(20)
        assert not held_up


def test_a_zygote_that_died_is_told_in_words() -> None:
    with Stage("refengine") as own:
        ends = os.pidfd_open(own.zygote.pid)
        os.kill(own.zygote.pid, signal.SIGKILL)
        assert select.select([ends], [], [], 10.0)[0]
        os.close(ends)
        with pytest.raises(KillpointError):
            own.play(_scenario())


def test_tensors_are_played_where_torch_is_imported_and_all_else_where_it_need_not_be() -> None:
    with Stage("refengine") as own:
        lean = own.zygote
        assert not lean.loaded.torch
        for kind in ("tensor", "array"):
            message = Message(kind, 500)
            play = own.play(_scenario(Send([message]), Receive(1, timeout=9.0), Wait(within=9.0)))
            assert _kinds("R3", play) == []
        with_torch = own._with["torch",]
        assert with_torch.loaded.torch
    assert not Path(f"/proc/{with_torch.pid}").exists()


def test_a_target_that_does_not_say_what_it_needs_finds_torch() -> None:
    with Stage("stuck_queue:NeverArrives") as own:
        assert own.zygote.loaded.torch


def test_a_stage_that_is_closed_leaves_no_folder_and_no_process() -> None:
    with Stage("refengine") as own:
        pid, root = own.zygote.pid, own.root
        assert root.is_dir()
    assert not root.exists()
    assert not Path(f"/proc/{pid}").exists()
