"""Whatever the bytes of a frame are: a message, or one kind of refusal."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

import pytest

from refengine.base.frame_decoding import DropCounter, Malformed
from refengine.coordinator import Report, Start, State
from refengine.coordinator import protocol as of_coordinators
from refengine.coordinator.protocol import Scale
from refengine.engine import protocol as of_engines
from refengine.engine.protocol import (
    AddRequest,
    Cancel,
    Heartbeat,
    Output,
    Outputs,
    Refused,
    Request,
    Vote,
)

from ..mutated_frames import FATAL, mutated

_FRAMES = [
    *map(
        of_coordinators.encode,
        (
            Report(1, 2, True, 1, None, (0,), (3, 4)),
            Scale(3),
            Start(3, (0, 2)),
            State(1, True, ((1, 2), None)),
        ),
    ),
    *map(
        of_engines.encode,
        (
            AddRequest(Request("a-request", (1, 2, 3), 4)),
            Cancel("a-request"),
            Outputs((Output("a-request", (5,), "stop"),)),
            Refused("a-request", "no room"),
            Heartbeat(1, 2, 3, 4, 0.5),
            Vote(1, 2, 3, 0, 0, unfinished=True),
        ),
    ),
]


@pytest.mark.parametrize(
    "read",
    [
        of_coordinators.decode_published,
        of_coordinators.decode_report,
        of_coordinators.decode_scale,
        of_engines.decode_to_core,
        of_engines.decode_from_core,
        of_engines.decode_vote,
    ],
    ids=lambda read: read.__name__,
)
def test_a_mutated_frame_is_a_message_or_refused(read: Callable[[bytes], object]) -> None:
    for frame in mutated(_FRAMES, 3000, seed=7):
        with contextlib.suppress(Malformed):
            read(frame)


@pytest.mark.parametrize("frame", FATAL, ids=range(len(FATAL)))
def test_what_is_fatal_to_a_decoder_is_no_message(frame: bytes) -> None:
    for read in (
        of_coordinators.decode_published,
        of_engines.decode_to_core,
        of_engines.decode_from_core,
        of_engines.decode_vote,
    ):
        with pytest.raises(Malformed):
            read(frame)
    assert of_coordinators.decode_report(frame) == (None, 1)
    assert of_coordinators.decode_scale(frame) is None


def test_a_flood_of_what_was_dropped_is_counted_and_fills_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    dropped = DropCounter(logging.getLogger("a-wire"))
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            dropped.add("a frame")
        dropped.add("a frame", parts=3000)
    assert dropped.parts == 4000
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "a frame made no sense and was dropped (1 so far)"
    assert len(said) == 11
