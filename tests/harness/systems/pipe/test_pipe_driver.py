"""Roles do the steps of a pipe, on real processes: what they log, and what can be done to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from killpoint.history.event import Event
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import (
    BlocksSend,
    Count,
    Fault,
    PipeClose,
    PipeDrain,
    PipeForge,
    PipeMeet,
    PipeOpen,
    PipeReceive,
    PipeSend,
    Point,
    Scenario,
    Tensor,
    Wait,
)
from killpoint.systems.pipe.record import calls
from killpoint.targets.protocol import PipeShape

EXAMPLES = Path(__file__).parents[3] / "examples"
OPENED = [PipeOpen(), Wait(within=30.0)]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        with Stage("socket_tensors:TensorTarget") as made:
            yield made


def played(stage: Stage, *steps: Any, **shape: Any) -> Play:
    play = stage.play(Scenario("K1/x", ["K1"], [*OPENED, *steps], pipe=PipeShape(**shape)))
    stage.forget(play)
    assert play.stalled == ""
    assert play.ledger.empty()
    return play


def of(play: Play, kind: str, role: str) -> list[Event]:
    return list(play.history.of(kind, role=role))


def test_tensors_keep_their_looks_and_digests_on_the_way(stage: Stage) -> None:
    batch = [Tensor("bfloat16", (3, 2), "transposed"), Tensor(form="none"), Tensor(repeat=2)]
    play = played(stage, PipeSend("pipe-0", batch), PipeReceive(("pipe-1",), 4), Wait())
    sent, got = of(play, "pipe-send", "pipe-0"), of(play, "pipe-got", "pipe-1")
    for field in ("dtype", "shape", "digest"):
        assert [e.data[field] for e in sent] == [e.data[field] for e in got]
    assert [e.number("seq") for e in sent] == [0, 1, 2, 3]
    assert sent[0].data["shape"] == [3, 2]
    assert sent[2].text("digest") != sent[3].text("digest")


def test_an_overwritten_tensor_has_another_digest(stage: Stage) -> None:
    play = played(
        stage, PipeSend("pipe-0", [Tensor("bool")], mutate=True), PipeReceive(("pipe-1",)), Wait()
    )
    (sent,), (changed,) = of(play, "pipe-send", "pipe-0"), of(play, "overwritten", "pipe-0")
    assert changed.text("digest") not in ("", sent.text("digest"))


def test_a_receive_beside_waits_while_its_role_sends(stage: Stage) -> None:
    play = played(
        stage,
        PipeReceive(("pipe-0",), beside=True),
        Wait(),
        PipeSend("pipe-0", [Tensor()]),
        PipeReceive(("pipe-1",)),
        Wait(),
        PipeSend("pipe-1", [Tensor()]),
        PipeMeet(("pipe-0",)),
        Wait(),
    )
    (asked,) = of(play, "pipe-receive", "pipe-0")
    (sent,), (got,) = of(play, "pipe-sent", "pipe-0"), of(play, "pipe-got", "pipe-0")
    assert asked.t < sent.t < got.t
    assert got.text("outcome") == "ok"


def test_sends_beside_wait_for_room_at_once(stage: Stage) -> None:
    large = Tensor("uint8", (16 << 20,))
    play = played(
        stage,
        PipeSend("pipe-0", [large]),
        PipeSend("pipe-0", [large], beside=True),
        PipeSend("pipe-0", [Tensor()], beside=True),
        Wait(),
        PipeReceive(("pipe-1",), 3),
        Wait(),
        PipeMeet(("pipe-0",)),
        Wait(),
        buffer_bytes=1,
    )
    began, ended = of(play, "pipe-send", "pipe-0"), of(play, "pipe-sent", "pipe-0")
    assert [event.number("seq") for event in began] == [0, 1, 2]
    assert ended[0].number("seq") == 0
    assert max(event.t for event in began[1:]) < min(event.t for event in ended[1:])
    assert [event.text("outcome") for event in ended] == ["ok"] * 3
    sends = [call for call in calls(play.history) if call.op == "pipe-send"]
    assert [call.ended.number("seq") for call in sends if call.ended] == [0, 1, 2]


def test_a_buffer_is_asked_until_it_is_empty(stage: Stage) -> None:
    large = Tensor("uint8", (8 << 20,))
    play = played(
        stage,
        PipeSend("pipe-0", [large], same=True),
        PipeDrain(("pipe-0",), within=0.2),
        Wait(),
        PipeReceive(("pipe-1",)),
        Wait(),
        PipeDrain(("pipe-0",)),
        Wait(),
    )
    looks = [event.number("bytes") for event in of(play, "buffered", "pipe-0")]
    assert looks == [8 << 20, 0]
    (burst,) = of(play, "burst", "pipe-0")
    assert 7 << 20 < burst.number("peak") - burst.number("before") < 40 << 20


def test_a_tensor_without_bytes_cannot_be_sent(stage: Stage) -> None:
    play = played(stage, PipeSend("pipe-0", [Tensor(form="meta")]), Wait())
    (told,) = of(play, "pipe-sent", "pipe-0")
    assert told.text("outcome") == "error"


def test_a_lie_reaches_who_takes_next(stage: Stage) -> None:
    play = played(stage, PipeForge("pipe-0", "huge"), PipeReceive(("pipe-1",)), Wait())
    assert [e.text("outcome") for e in of(play, "pipe-got", "pipe-1")] == ["refused"]


def test_a_closed_end_is_not_asked_again(stage: Stage) -> None:
    play = played(stage, PipeClose(("pipe-0",)), Wait(), PipeSend("pipe-0", [Tensor()]), Wait())
    assert [e.text("outcome") for e in of(play, "pipe-closed", "pipe-0")] == ["ok"]
    assert [e.text("outcome") for e in of(play, "pipe-sent", "pipe-0")] == ["no-pipe"]


def test_what_a_target_has_not_is_unsupported(stage: Stage) -> None:
    play = played(stage, BlocksSend("pipe-0", "a", [Tensor()]), Wait())
    ends = [e for e in play.history.of("end", role="pipe-0") if e.text("op") == "blocks-send"]
    assert [e.text("outcome") for e in ends] == ["unsupported"]


def test_lines_of_the_targets_own_threads_are_counted_and_struck(stage: Stage) -> None:
    carried = [*OPENED, PipeReceive(("pipe-1",)), PipeSend("pipe-0", [Tensor()])]

    def with_(step: Any, *more: Any) -> Play:
        scenario = Scenario("K1/x", ["K1"], [step, *carried, *more], pipe=PipeShape())
        play = stage.play(scenario)
        stage.forget(play)
        assert play.stalled == ""
        return play

    counted = with_(Count("pipe-0", Point("carry")), Wait(), PipeClose(), Wait())
    (lines,) = [e for e in counted.history.of("lines") if e.text("op") == "carry"]
    assert lines.number("count") > 4
    at = Point("carry", line=2)
    killed = with_(Fault("kill", "pipe-0", at), Wait())
    assert killed.unreached == []
    (exit,) = [e for e in killed.history.of("exit") if e.text("target") == "pipe-0"]
    assert exit.number("signal") == 9
    raised = with_(Fault("raise", "pipe-0", at), Wait(), PipeClose(("pipe-0",)), Wait())
    assert [e.text("how") for e in raised.history.of("raised")] == ["injected"]
    stopped = with_(Fault("stop", "pipe-0", at), Fault("continue", "pipe-0"), Wait())
    assert [e.text("outcome") for e in of(stopped, "pipe-got", "pipe-1")] == ["ok"]
