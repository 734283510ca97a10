"""Bytes: what is valid of a message is kept, and the rest counted."""

from __future__ import annotations

import msgspec
import pytest

from refengine.coordinator import Report, Start, State, protocol
from refengine.coordinator.protocol import Scale

encode = msgspec.msgpack.encode


@pytest.mark.parametrize("message", [Start(3, (0, 2)), State(1, True, ((1, 2), None))])
def test_what_is_published_comes_as_it_was(message: Start | State) -> None:
    assert protocol.decode_published(protocol.encode(message)) == message


def test_a_whole_report_comes_as_it_was() -> None:
    report = Report(1, wants=2, work=True, done=1, broke=None, lost=(0,), counts=(3, 4))
    assert protocol.decode_report(protocol.encode(report)) == (report, 0)


def test_of_a_report_in_part_malformed_the_rest_is_kept() -> None:
    frame = encode(["report", 1, "x", True, 4, None, [], [7]])
    assert protocol.decode_report(frame) == (Report(1, work=True, done=4), 2)


def test_parts_that_nobody_knows_are_counted() -> None:
    assert protocol.decode_report(
        encode(["report", 1, "x", False, None, None, [], None, 1, 2])
    ) == (
        Report(1),
        3,
    )


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc1",
        b"\xa2\xff\xff",
        encode(7),
        encode([]),
        encode(["report"]),
        encode(["report", "me", 1]),
        encode(["start", 1, [0]]),
        encode({"report": 1}),
    ],
)
def test_what_is_no_report_is_counted_once(frame: bytes) -> None:
    assert protocol.decode_report(frame) == (None, 1)


def test_a_scale_is_known_from_anything_else() -> None:
    assert protocol.decode_scale(protocol.encode(Scale(3))) == Scale(3)
    assert protocol.decode_scale(b"\xc1") is protocol.decode_scale(encode(["scale", "x"])) is None


def test_a_subscription_tells_whose_it_is() -> None:
    assert protocol.rank_of_subscription(b"\1" + protocol.topic_of(12)) == 12
    for other in (b"\1*", b"\1", b"\1r", b"\1rx", b"\1r99999999"):
        assert protocol.rank_of_subscription(other) is None


def test_of_a_report_that_is_short_each_wrong_part_is_counted() -> None:
    assert protocol.decode_report(encode(["report", 1, "x", "y"])) == (Report(1), 2)


@pytest.mark.parametrize(("rank", "found"), [(4095, 4095), (9999, 9999), (10_000, None)])
def test_a_topic_is_a_replicas_as_far_as_there_can_be_any(rank: int, found: int | None) -> None:
    assert protocol.rank_of_subscription(b"\1" + protocol.topic_of(rank)) == found
