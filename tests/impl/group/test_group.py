"""What a group does while nothing goes wrong, and what calls that give up leave behind (G1, X1)."""

import gc
import os
import pickle
import signal
import socket
import struct
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from refengine.errors import (
    BarrierFailed,
    Busy,
    DeadlinePassed,
    ForkedCopy,
    GroupClosed,
    NotReady,
    RankRefused,
    Undecodable,
    Unencodable,
)
from refengine.group import Group, new_key

from ..collecting import collected_in, in_a_cycle
from ..roles import Role, until
from .members import KEY, members, port_of, together


class Interrupted(BaseException):
    pass


class Poison:
    def __reduce__(self) -> Any:
        return int, ("no number",)


def all_said(groups: list[Group]) -> None:
    """The host has read what everybody has said so far: letters go the same ways, in order."""
    for member in groups[1:]:
        member.send_obj("so far", 0)
        assert groups[0].recv_obj(member.rank, 10) == "so far"
        groups[0].send_obj("so far", member.rank)
        assert member.recv_obj(0, 10) == "so far"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]"])
def test_each_pair_has_its_own_order(host: str):
    with members(4, host) as groups:

        def talk(group: Group) -> list[Any]:
            others = [rank for rank in range(4) if rank != group.rank]
            for i in range(50):
                for rank in others:
                    group.send_obj((group.rank, rank, i), rank)
            return [[group.recv_obj(rank, 10) for _ in range(50)] for rank in others]

        for rank, got in enumerate(together(groups, talk)):
            others = [other for other in range(4) if other != rank]
            assert got == [[(other, rank, i) for i in range(50)] for other in others]


def test_every_rank_sees_each_broadcast_once_beside_letters():
    with members(3) as groups:

        def talk(group: Group) -> list[Any]:
            if group.rank == 1:
                for i in range(20):
                    assert group.broadcast_obj(("b", i), 1) == ("b", i)
                    group.send_obj(("l", i), 0)
                return []
            letters = [group.recv_obj(1, 10) for _ in range(20)] if group.rank == 0 else []
            return [*letters, *(group.broadcast_obj(None, 1, 10) for _ in range(20))]

        casts = [("b", i) for i in range(20)]
        assert together(groups, talk) == [[*(("l", i) for i in range(20)), *casts], [], casts]
        with pytest.raises(DeadlinePassed):
            groups[0].broadcast_obj(None, 1, 0.01)


def test_gathers_come_in_rank_order_one_after_the_other():
    with members(3) as groups:
        got = together(groups, lambda g: [g.all_gather_obj((g.rank, i), 10) for i in range(30)])
        assert got == [[[(0, i), (1, i), (2, i)] for i in range(30)]] * 3


def test_a_group_of_one_is_a_group():
    with Group.create("127.0.0.1", 0, 0, 1, key=KEY, timeout=10) as group:
        assert group.all_gather_obj("x", 5) == ["x"]
        assert group.broadcast_obj("y", 0) == "y"
        group.barrier(5)
        assert (group.rank, group.world_size) == (0, 1)


def test_what_arrives_is_what_was_sent_and_can_be_written_to():
    with members(2) as groups:
        array = numpy.arange(1 << 19)
        groups[1].send_obj({"a": array}, 0)
        array[:] = 0
        got = groups[0].recv_obj(1, 10)["a"]
        assert numpy.array_equal(got, numpy.arange(1 << 19))
        got[0] = 7


def test_a_receive_that_gave_up_lost_nothing():
    with members(2) as groups:
        for timeout in (0, -1, 0.05):
            start = time.monotonic()
            with pytest.raises(DeadlinePassed, match="rank 1"):
                groups[0].recv_obj(1, timeout)
            assert time.monotonic() - start >= timeout
        groups[1].send_obj("x", 0)
        assert groups[0].recv_obj(1, 10) == "x"


def test_a_barrier_that_gave_up_names_who_is_missing_and_is_the_same_when_called_again():
    with members(3) as groups:
        for failed in together(groups[:2], lambda g: g.barrier(0.4)):
            assert isinstance(failed, BarrierFailed)
            assert failed.missing == [2]
            assert "rank 2" in str(pickle.loads(pickle.dumps(failed)))
        all_said(groups)
        with pytest.raises(BarrierFailed) as caught:  # the two others withdrew
            groups[2].barrier(0.2)
        assert caught.value.missing == [0, 1]
        for _ in range(2):
            assert together(groups, lambda g: g.barrier(10)) == [None] * 3


def test_a_gather_that_gave_up_takes_its_object_back():
    with members(3) as groups:
        with pytest.raises(DeadlinePassed, match="ranks 0, 2"):
            groups[1].all_gather_obj("old", 0.2)
        all_said(groups)  # a withdrawal that comes after the others is too late
        assert together(groups, lambda g: g.all_gather_obj(g.rank, 10)) == [[0, 1, 2]] * 3


def test_a_release_that_crossed_the_withdrawal_is_found_by_the_next_call():
    with members(2) as groups:
        context = groups[1]._context
        hear, held = context.member.hear, []
        context.member.hear = lambda raw: held.append(bytes(raw)) or []
        outcome = together(groups, lambda g: g.all_gather_obj(g.rank, 0.3 if g.rank else 10))
        assert outcome[0] == [0, 1]
        assert isinstance(outcome[1], DeadlinePassed)
        context.member.hear = hear
        for raw in held:
            hear(raw)
        assert groups[1].all_gather_obj("another", 0) == [0, 1]
        assert together(groups, lambda g: g.all_gather_obj(g.rank + 10, 10)) == [[10, 11]] * 2


def test_an_undecodable_object_is_raised_once_and_consumed():
    with members(2) as groups:
        for obj in (Poison(), "next"):
            groups[1].send_obj(obj, 0)
        with pytest.raises(Undecodable):
            groups[0].recv_obj(1, 10)
        assert groups[0].recv_obj(1, 10) == "next"
        outcome = together(groups, lambda g: g.all_gather_obj(Poison(), 10))
        assert [type(error) for error in outcome] == [Undecodable] * 2
        assert together(groups, lambda g: g.all_gather_obj(1, 10)) == [[1, 1]] * 2


def test_an_unpicklable_object_is_refused_where_it_was_given():
    with members(2) as groups:
        for call in (
            lambda: groups[0].send_obj(lambda: 0, 1),
            lambda: groups[0].broadcast_obj(lambda: 0, 0),
            lambda: groups[0].all_gather_obj(lambda: 0, 1),
        ):
            with pytest.raises(Unencodable):
                call()
        assert together(groups, lambda g: g.all_gather_obj(1, 10)) == [[1, 1]] * 2


def test_two_receivers_of_one_source_are_told_and_others_are_not():
    with members(3) as groups:
        waiting = threading.Thread(target=lambda: groups[0].recv_obj(1, 10))
        waiting.start()
        until(lambda: groups[0]._context.member.wakers._waiting)
        with pytest.raises(Busy):
            groups[0].recv_obj(1, 0)
        with pytest.raises(DeadlinePassed):
            groups[0].recv_obj(2, 0)
        groups[0].send_obj("meanwhile", 2)
        assert groups[2].recv_obj(0, 10) == "meanwhile"
        groups[1].send_obj("x", 0)
        waiting.join(10)
        assert not waiting.is_alive()


def test_a_close_wakes_who_waits():
    with members(2) as groups:
        outcome: list[Any] = []

        def wait() -> None:
            outcome.extend(together(groups[:1], lambda g: g.recv_obj(1, 10)))

        waiting = threading.Thread(target=wait)
        waiting.start()
        until(lambda: groups[0]._context.member.wakers._waiting)
        groups[0].close(1)
        waiting.join(15)
        assert isinstance(outcome[0], GroupClosed)


def test_an_absent_rank_is_named_by_all_and_can_still_come():
    with (
        Group("127.0.0.1", 0, 0, 3, key=KEY) as host,
        Group("127.0.0.1", port_of(host), 1, 3, key=KEY) as member,
    ):
        for error in together([host, member], lambda g: g.wait_until_ready(0.6)):
            assert isinstance(error, DeadlinePassed)
            assert "rank 2" in str(error)
        with pytest.raises(NotReady):
            host.send_obj("x", 1)
        with Group("127.0.0.1", port_of(host), 2, 3, key=KEY) as late:
            everybody = [host, member, late]
            assert together(everybody, lambda g: g.wait_until_ready(10)) == [None] * 3
            assert together(everybody, lambda g: g.barrier(10)) == [None] * 3


def test_an_absent_host_is_named():
    with pytest.raises(DeadlinePassed, match="rank 0 at tcp"):
        Group.create("127.0.0.1", 9, 1, 2, key=KEY, timeout=0.3)


def test_a_second_claim_to_a_rank_is_refused():
    with members(2) as groups:
        with pytest.raises(RankRefused, match="rank 1"):
            Group.create("127.0.0.1", port_of(groups[0]), 1, 2, key=KEY, timeout=10)
        groups[1].send_obj("x", 0)
        assert groups[0].recv_obj(1, 10) == "x"


def test_who_has_another_key_never_joins_and_disturbs_nobody():
    with members(2) as groups:
        with pytest.raises(DeadlinePassed):
            Group.create("127.0.0.1", port_of(groups[0]), 1, 2, key=new_key(), timeout=0.5)
        groups[1].send_obj("x", 0)
        assert groups[0].recv_obj(1, 10) == "x"


def test_nothing_is_unpickled_before_it_is_asked_for(tmp_path: Any):
    with members(2) as groups:
        groups[1].send_obj(Touch(str(tmp_path / "mark")), 0)
        groups[1].send_obj("after", 0)
        until(lambda: len(groups[0]._context.member.inboxes[1, 1].bodies) == 2)
        assert not (tmp_path / "mark").exists()
        groups[0].recv_obj(1, 10)
        assert (tmp_path / "mark").exists()


class Touch:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def test_the_key_shows_nowhere():
    key = new_key()
    with Group("127.0.0.1", 0, 0, 2, key=key) as group:
        shown = repr(group) + repr(vars(group)) + repr(vars(group._context.link))
        try:
            group.wait_until_ready(0)
        except DeadlinePassed as error:
            shown += repr(error)
    with pytest.raises(ValueError, match="32 bytes") as caught:
        Group("127.0.0.1", 0, 0, 2, key=key[:-1])
    shown += repr(caught.value)
    for form in (key.hex(), repr(key)[2:-1], repr(key[:-1])[2:-1]):
        assert form not in shown


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1"])
def test_rank_0_listens_at_its_host_alone_and_others_nowhere(host: str):
    def listeners() -> set[str]:
        own = {link.readlink().name for link in _descriptors()}
        rows = [
            line.split()
            for name in ("tcp", "tcp6")
            for line in Path("/proc/self/net", name).read_text().splitlines()[1:]
        ]
        return {row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own}

    before = listeners()
    with members(2, host) as groups:
        (address,) = listeners() - before
        where, port = address.split(":")
        assert int(port, 16) == port_of(groups[0])
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        words = [int(where[i : i + 8], 16) for i in range(0, len(where), 8)]
        packed = struct.pack(f"={len(words)}I", *words)
        assert packed == socket.inet_pton(family, host)


def _descriptors() -> list[Path]:
    return [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]


@pytest.mark.parametrize(("port", "rank", "n"), [(0, 1, 2), (5, 2, 2), (5, -1, 2), (70000, 0, 2)])
def test_wrong_numbers_are_refused_at_once(port: int, rank: int, n: int):
    with pytest.raises(ValueError, match=str(rank)):
        Group("127.0.0.1", port, rank, n, key=KEY)


def test_no_rank_talks_to_itself_or_to_nobody():
    with members(2) as groups:
        for rank in (0, 2, -1):
            with pytest.raises(ValueError, match="no other rank"):
                groups[0].send_obj("x", rank)


def test_a_forks_copy_is_refused_and_leaves_the_parents_alone():
    with members(2) as groups:

        def child(say: Any) -> None:
            try:
                groups[1].send_obj("from the child", 0)
            except ForkedCopy as error:
                say(error)
            groups[1].close()
            groups.clear()
            gc.collect()

        with Role(child) as role:
            assert isinstance(role.finish()[0], ForkedCopy)
        groups[1].send_obj("x", 0)
        assert groups[0].recv_obj(1, 10) == "x"


@pytest.mark.full  # G2 weighs groups at every commit
def test_the_memory_does_not_grow_with_the_messages():
    with members(3) as groups:
        host, sender, receiver = groups

        def talk(count: int) -> int:
            for batch in range(0, count, 250):
                for i in range(250):
                    sender.send_obj((batch, i), 2)
                sender.broadcast_obj("all", 1)
                for i in range(250):
                    assert receiver.recv_obj(1, 10) == (batch, i)
                assert [g.broadcast_obj(0, 1, 10) for g in (host, receiver)] == ["all"] * 2
                together(groups, lambda g: g.all_gather_obj(b"x" * 1000, 10))
            until(lambda: all(not g._context.member.wakers._waiting for g in groups))
            gc.collect()
            return sys.getallocatedblocks()

        before = talk(2_000)
        assert talk(20_000) - before < 2_000  # a tenth of an object a message


@pytest.fixture
def young_collector() -> Iterator[None]:
    """The collector looks through what a test makes, not through all that the tests before made."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("young_collector")
def test_a_dropped_group_hands_over_and_leaves():
    with Group("127.0.0.1", 0, 0, 2, key=KEY) as host:
        cycle: list[Any] = [Group("127.0.0.1", port_of(host), 1, 2, key=KEY)]
        together([host, cycle[0]], lambda g: g.wait_until_ready(10))
        cycle[0].send_obj("last words", 0)
        cycle.append(cycle)
        dropped = weakref.ref(cycle[0])
        del cycle
        start = time.monotonic()
        gc.collect()
        assert dropped() is None
        assert time.monotonic() - start < 2
        assert host.recv_obj(1, 10) == "last words"
        with pytest.raises(GroupClosed, match="rank 1"):
            host.recv_obj(1, 10)


def test_a_handler_that_raises_interrupts_a_wait_and_loses_nothing():
    def strike(*_: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, strike)
    try:
        with members(2) as groups:
            for act in (
                lambda: groups[0].recv_obj(1, 10),
                lambda: groups[0].barrier(10),
                lambda: groups[0].all_gather_obj("old", 10),
            ):
                timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
                timer.start()
                with pytest.raises(Interrupted):
                    act()
                timer.join()
            groups[1].send_obj("x", 0)
            assert groups[0].recv_obj(1, 10) == "x"
            assert together(groups, lambda g: g.barrier(10)) == [None] * 2
            assert together(groups, lambda g: g.all_gather_obj(g.rank, 10)) == [[0, 1]] * 2
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(("rank", "thread"), [(0, "Server"), (1, "Client")])
def test_a_member_that_its_own_thread_collects_leaves_and_leaves_nothing(rank: int, thread: str):
    threads = set(threading.enumerate())
    with collected_in(thread) as clock:
        seams: list[dict[str, Any]] = [{}, {}]
        seams[rank] = {"clock": clock}
        groups = [Group("127.0.0.1", 0, 0, 2, key=KEY, **seams[0])]
        groups.append(Group("127.0.0.1", port_of(groups[0]), 1, 2, key=KEY, **seams[1]))
        together(groups, lambda group: group.wait_until_ready(20))
        groups[rank].send_obj("last", 1 - rank)
        in_a_cycle(groups.pop(rank))
        clock.due = True
        with groups[0] as other:
            assert other.recv_obj(rank, 10) == "last"
            with pytest.raises(GroupClosed):
                other.recv_obj(rank, 10)
        until(lambda: set(threading.enumerate()) <= threads)
