"""Numbers that only show in how often something is looked at, kept, or told."""

import itertools
import mmap
from typing import Any

import pytest

from refengine.base.buffer_pool import BufferPool
from refengine.base.ownership import SHM, Owner, new_name
from refengine.errors import GroupClosed, PeerSilent, RankDied
from refengine.group.exit_reason import ExitReason
from refengine.group.protocol import Channel, Kind
from refengine.queue import MessageQueue
from refengine.ring.waiting import Adaptive, Yielding
from refengine.transport import Gone

from .roles import Role


class Post:
    """Counts what a strategy does besides looking; a look takes `look` seconds."""

    def __init__(self, look: float = 1e-6) -> None:
        self.now, self.did = 0.0, list[Any]()
        self._look = look
        self.waiting_for = "a message"

    def clock(self) -> float:
        self.now += self._look
        return self.now

    def announce_sleep(self) -> None:
        self.did.append("arm")

    def block(self, seconds: float | None) -> None:
        assert seconds is None or seconds >= 0
        self.did.append(seconds)
        self.now += 0.01 if seconds is None else seconds

    def fault(self) -> None:
        return None


@pytest.mark.parametrize(("readers", "cores", "bare"), [(1, 2, True), (2, 2, False), (3, 2, False)])
def test_bare_looks_are_for_those_with_a_core_of_their_own(readers: int, cores: int, bare: bool):
    strategy = Adaptive(readers, clock=Post().clock, cores=cores)
    seen = itertools.count()
    assert strategy.wait(lambda: next(seen) == 3, Post(), 1.0)
    assert (strategy._looks > 0) == bare
    for _ in range(40):
        strategy.wait(lambda: False, Post(), 1e-9)
    assert (strategy._looks > 0) == bare


def test_a_yielding_wait_naps_only_after_three_quiet_seconds():
    point = Post(look=1e-3)  # each of 3,500 looks gives its core away, to whoever is busy
    strategy = Yielding(nap=0.5, clock=point.clock)
    assert not strategy.wait(lambda: False, point, 2.0)
    assert "arm" not in point.did
    point.now += 3.0
    assert not strategy.wait(lambda: False, point, 1.0)
    assert point.did.count("arm") >= 1
    assert strategy.wait(lambda: True, point, 1.0)
    point.did.clear()
    assert not strategy.wait(lambda: False, point, 0.5)
    assert "arm" not in point.did


# -- recycled memory ------------------------------------------------------------------------


def _where(view: memoryview) -> int:
    import numpy as np

    return np.frombuffer(view, np.uint8).ctypes.data


def test_no_more_is_kept_than_was_allowed():
    memory = BufferPool(4 << 20)
    views = [memory.take(1 << 20) for _ in range(6)]
    assert memory._held == sum(size * len(each) for size, each in memory._by_size.items())
    assert memory._held == 4 << 20
    assert len({_where(view) for view in views}) == 6


def test_the_size_asked_for_longest_ago_makes_room():
    memory = BufferPool(4 << 20)
    for size in (1 << 20, 2 << 20, 1 << 20, 3 << 20):
        memory.take(size)
    assert memory._held == sum(size * len(each) for size, each in memory._by_size.items())
    assert memory._held <= 4 << 20
    assert 2 << 20 not in memory._by_size


@pytest.mark.parametrize("nbytes", [1, 5000, 100_000, (1 << 20) + 1, 10_000_001])
def test_sizes_are_rounded_up_by_an_eighth_at_most(nbytes: int):
    memory = BufferPool()
    view = memory.take(nbytes)
    (size,) = memory._by_size
    assert len(view) == nbytes
    assert nbytes <= size <= max(nbytes + mmap.PAGESIZE, nbytes * 9 // 8)
    assert size % mmap.PAGESIZE == 0


# -- what is told ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "error"),
    [
        (Gone("closed", 0.0, 3, 0), GroupClosed),
        (Gone("died", 0.0, 0, 4321), RankDied),
        (Gone("silent", 2.5, 0, 0), PeerSilent),
    ],
)
def test_a_departure_arrives_as_it_was(how: Gone, error: type[Exception]):
    whole = ExitReason(3, how, 7)
    again = ExitReason.unpack(3, memoryview(whole.pack()))
    assert again == whole
    assert isinstance(again.error("a barrier"), error)


def test_what_is_not_known_to_be_lost_travels_as_none_lost():
    unknown = ExitReason(1, Gone("closed", 0.0, -1, 0))
    assert ExitReason.unpack(1, memoryview(unknown.pack())).how.lost == 0


def test_every_kind_of_frame_is_another_byte():
    assert [int(kind) for kind in Kind] == list(range(1, 11))
    assert [int(channel) for channel in Channel] == [0, 1, 2]


def test_whoever_makes_a_queue_removes_what_the_dead_left():
    def leave(say: Any) -> None:
        name = new_name()
        (SHM / name).touch(0o600)
        say(name)

    with Role(leave) as dead:
        name = dead.hear()
        dead.finish()
    owner = Owner.named(name)
    assert owner is not None
    assert owner.is_gone()
    MessageQueue(1).close()
    assert not (SHM / name).exists()
