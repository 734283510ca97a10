"""A link: frames come whole and in order, nobody waits, and what is not taken can be dropped."""

from __future__ import annotations

import socket
from collections.abc import Generator

import pytest

from refengine.serving.front_ends.link import Link

Pair = tuple[Link, Link, socket.socket]


@pytest.fixture
def pair() -> Generator[Pair]:
    """Both ends, and the socket of the second."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Link(ours), Link(theirs), theirs


def _all(link: Link, count: int) -> list[bytes]:
    frames: list[bytes] = []
    for _ in range(100_000):
        frames += link.take()
        if len(frames) >= count:
            break
    return frames


def test_frames_come_whole_and_in_order(pair: Pair) -> None:
    one, other, _ = pair
    sent = [b"", b"a", b"b" * 100_000]
    assert all(one.send(frame) for frame in sent)
    assert _all(other, 3) == sent
    assert other.take() == []


def test_what_is_not_taken_waits_and_is_sent_as_there_is_room(pair: Pair) -> None:
    one, other, _ = pair
    sent = [bytes([number]) * 300_000 for number in range(5)]
    assert [one.send(frame) for frame in sent][-1] is False
    assert one.waiting > 0
    came: list[bytes] = []
    while len(came) < 5:
        came += other.take()
        one.flush()
    assert came == sent
    assert one.waiting == 0


def test_dropped_the_frame_that_was_begun_is_still_whole(pair: Pair) -> None:
    one, other, _ = pair
    for number in range(5):
        one.send(bytes([number]) * 300_000)
    assert [frame[:1] for frame in one.drop()] == [b"\1", b"\2", b"\3", b"\4"]
    assert 0 < one.waiting < 300_000
    one.send(b"last")
    came: list[bytes] = []
    while b"last" not in came:
        one.flush()
        came += other.take()
    assert [frame[:1] for frame in came] == [b"\0", b"l"]
    assert len(came[0]) == 300_000


def test_dropped_with_no_frame_begun_nothing_is_left(pair: Pair) -> None:
    one, other, _ = pair
    one.send(b"first")
    assert one.drop() == []
    assert (one.waiting, _all(other, 1)) == (0, [b"first"])


def test_the_other_side_s_end_is_seen_after_what_it_said(pair: Pair) -> None:
    one, other, _ = pair
    one.send(b"last words")
    one.close()
    assert _all(other, 1) == [b"last words"]
    with pytest.raises(EOFError):
        other.take()
    assert other.send(b"to nobody")
    assert other.waiting == 0


def test_a_length_that_makes_no_sense_ends_the_link(pair: Pair) -> None:
    one, _, theirs = pair
    theirs.send(b"\xff" * 4)
    with pytest.raises(EOFError, match="no sense"):
        one.take()
