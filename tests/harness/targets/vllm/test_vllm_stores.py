"""Each store to a flag is reported as it is made, and nothing else changes."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import pytest

from killpoint.targets.vllm.stores import Flags, Layout, Watched, view_of

LAYOUT = Layout(flags=8, flags_per_slot=3, chunk_bytes=4)


class Scene:
    """A watched segment of two slots with two readers, and what was reported."""

    def __init__(self, segment: SharedMemory) -> None:
        self.segment = segment
        self.seen: list[tuple[int, int, int, bytes, bytes]] = []
        self.watched = Watched(segment, LAYOUT, self.note)

    @contextmanager
    def note(self, slot: int, flag: int, value: int) -> Generator[None]:
        before = self.flags()
        yield
        self.seen.append((slot, flag, value, before, self.flags()))

    def fill(self, flags: bytes) -> None:
        """Store behind the watch's back."""
        assert self.segment.buf is not None
        self.segment.buf[8 : 8 + len(flags)] = flags

    def flags(self) -> bytes:
        assert self.segment.buf is not None
        return bytes(self.segment.buf[8:14])

    @property
    def buf(self) -> Any:
        return self.watched.buf


@pytest.fixture
def scene() -> Iterator[Scene]:
    segment = SharedMemory(create=True, size=14)
    yield Scene(segment)
    segment.close()
    segment.unlink()


def test_a_store_is_made_inside_the_sinks_block(scene: Scene) -> None:
    with scene.buf[11:14] as flags:
        flags[2] = 1
        flags[0] = 7
    assert scene.seen == [
        (1, 2, 1, bytes(6), bytes([0, 0, 0, 0, 0, 1])),
        (1, 0, 7, bytes([0, 0, 0, 0, 0, 1]), bytes([0, 0, 0, 7, 0, 1])),
    ]


def test_a_store_of_several_is_reported_one_by_one(scene: Scene) -> None:
    scene.buf[8:14][1:4] = b"\1\2\3"
    assert [event[:3] for event in scene.seen] == [(0, 1, 1), (0, 2, 2), (1, 0, 3)]


def test_slices_of_slices_and_places_from_the_end_are_watched_too(scene: Scene) -> None:
    scene.buf[8:14][2:][-1] = 5
    view_of(scene.buf[8:11])[0] = 6
    assert [event[:3] for event in scene.seen] == [(1, 2, 5), (0, 0, 6)]


def test_flags_read_like_a_memoryview(scene: Scene) -> None:
    scene.fill(b"\1\2\3")
    with scene.buf[8:11] as flags:
        assert (len(flags), flags[0], sum(flags[1:]), bytes(flags)) == (3, 1, 5, b"\1\2\3")
    with pytest.raises(ValueError, match="released"):
        flags[0] = 1
    assert scene.seen == []


def test_a_store_that_fails_is_not_reported(scene: Scene) -> None:
    flags = scene.buf[8:11]
    for place, value in ((3, 1), (-4, 1), (0, 256)):
        with pytest.raises((IndexError, ValueError)):
            flags[place] = value
    with pytest.raises(ValueError, match="do not fit"):
        flags[0:2] = b"\1"
    assert scene.seen == []


def test_data_is_handed_out_plain(scene: Scene) -> None:
    data = scene.buf[4:8]
    assert isinstance(data, memoryview)
    assert isinstance(view_of(data), memoryview)
    assert isinstance(scene.buf[8:9], Flags)
    data.release()


def test_a_slice_across_data_and_flags_is_refused(scene: Scene) -> None:
    with pytest.raises(ValueError, match="mixes data and flags"):
        scene.buf[7:9]


def test_everything_else_is_the_segment_itself(scene: Scene) -> None:
    assert scene.watched.name == scene.segment.name
    assert scene.watched.size == scene.segment.size
    scene.watched.close()
    assert scene.watched.buf is None
