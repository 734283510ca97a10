"""Ranks that die, leave, stop or come late, as processes of their own (G1, G3, G4)."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from refengine.errors import (
    BarrierFailed,
    GroupClosed,
    PeerSilent,
    RankDied,
)
from refengine.group import Group

from ..roles import Role
from .members import KEY, free_port, processes

NOTICED = 7.0
"""Seconds: 2 are promised, the rest is for a busy machine."""


def outcome(act: Any) -> Any:
    try:
        return act()
    except Exception as error:
        return error


def test_four_processes_talk_each_to_each():
    def work(say: Any, group: Group) -> None:
        others = [rank for rank in range(4) if rank != group.rank]
        for i in range(20):
            for rank in others:
                group.send_obj((group.rank, i), rank)
        got = [[group.recv_obj(rank, 10) for _ in range(20)] for rank in others]
        say(got == [[(rank, i) for i in range(20)] for rank in others])
        say(group.all_gather_obj(group.rank, 10))

    with processes(4, work) as roles:
        for role in roles:
            assert role.finish() == [True, [0, 1, 2, 3]]


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("operation", ["receive", "broadcast", "gather", "barrier"])
def test_a_killed_rank_is_named_by_all_within_two_seconds(victim: int, operation: str):
    def work(say: Any, group: Group) -> None:
        say("ready")
        if group.rank == victim:
            signal.pause()
        acts = {
            "receive": lambda: group.recv_obj(victim, 20),
            "broadcast": lambda: group.broadcast_obj(None, victim, 20),
            "gather": lambda: group.all_gather_obj(1, 20),
            "barrier": lambda: group.barrier(20),
        }
        for _ in range(2):
            say((outcome(acts[operation]), time.monotonic()))

    with processes(4, work) as roles:
        for role in roles:
            assert role.hear() == "ready"
        killed_at = time.monotonic()
        roles[victim].kill()
        for rank in range(4):
            if rank != victim:
                for _ in range(2):
                    error, at = roles[rank].hear()
                    assert isinstance(error, RankDied), error
                    assert error.rank == victim
                    assert at - killed_at < NOTICED
                    assert error.pid == roles[victim].pid


def test_the_others_go_on_and_get_what_the_dead_rank_had_sent():
    def work(say: Any, group: Group) -> None:
        if group.rank == 2:
            for i in range(5):
                group.send_obj(("letter", i), 1)
                group.broadcast_obj(("cast", i), 2)
            group.send_obj("all sent", 0)
            signal.pause()
        if group.rank == 0:
            say(group.recv_obj(2, 10))
        say(outcome(lambda: group.barrier(10)))
        if group.rank == 1:
            say([group.recv_obj(2, 0) for _ in range(5)])
            group.send_obj("still here", 0)
        if group.rank == 0:
            say(group.recv_obj(1, 10))
        say([group.broadcast_obj(None, 2, 0) for _ in range(5)])
        say(outcome(lambda: group.recv_obj(2, 10)))
        say(outcome(lambda: group.send_obj("too late", 2)))
        say(group.broadcast_obj("of rank 0", 0, 10))
        if group.rank == 1:
            group.send_obj("done", 0)
        if group.rank == 0:
            group.recv_obj(1, 10)  # with the host the group ends: not before rank 1 is done

    with processes(3, work) as roles:
        assert roles[0].hear() == "all sent"
        roles[2].kill()
        casts = [("cast", i) for i in range(5)]
        said = roles[1].finish()
        assert isinstance(said[0], RankDied)
        assert said[1:3] == [[("letter", i) for i in range(5)], casts]
        assert [type(thing) for thing in said[3:5]] == [RankDied] * 2
        assert said[5] == "of rank 0"
        assert roles[0].hear()
        assert roles[0].hear() == "still here"


def test_what_had_arrived_is_given_before_the_hosts_death_is_told():
    def work(say: Any, group: Group) -> None:
        if group.rank == 0:
            group.send_obj("from 0", 1)
        if group.rank == 2:
            group.send_obj("from 2", 1)
        group.barrier(10)
        say("through")
        if group.rank == 0:
            signal.pause()
        say(outcome(lambda: group.barrier(10)))
        if group.rank == 1:
            say([group.recv_obj(rank, 0) for rank in (0, 2)])
        for other in (0, 3 - group.rank):
            say(outcome(lambda other=other: group.recv_obj(other, 10)))
            say(outcome(lambda other=other: group.send_obj("x", other)))

    with processes(3, work) as roles:
        assert [role.hear() for role in roles] == ["through"] * 3
        roles[0].kill()
        said = roles[1].finish()
        assert said.pop(2) == ["from 0", "from 2"]
        for error in [*said[1:], *roles[2].finish()[1:]]:
            assert isinstance(error, RankDied)
            assert error.rank == 0


BIG = b"b" * (8 << 20)


def test_a_host_may_leave_right_after_its_broadcast():
    def work(say: Any, group: Group) -> None:
        if group.rank == 0:
            group.broadcast_obj(BIG, 0)
            return
        say(group.broadcast_obj(None, 0, 10) == BIG)
        say(outcome(lambda: group.broadcast_obj(None, 0, 10)))
        say(outcome(lambda: group.barrier(10)))

    with processes(3, work) as roles:
        for role in roles[1:]:
            got, *errors = role.finish()
            assert got is True
            assert [type(error) for error in errors] == [GroupClosed] * 2
            assert all("rank 0" in str(error) for error in errors)


EXITS = """
import sys
from refengine.group import Group
group = Group.create("127.0.0.1", int(sys.argv[1]), 0, 2, key=sys.stdin.buffer.read(), timeout=20)
group.broadcast_obj(b"b" * (8 << 20), 0)
if sys.argv[2] == "uncaught":
    raise RuntimeError
"""


@pytest.mark.parametrize("how", ["normal", "uncaught"])
def test_an_interpreter_that_exits_hands_over_and_leaves(how: str):
    port = free_port()
    command = [sys.executable, "-c", EXITS, str(port), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as host:
        assert host.stdin
        host.stdin.write(KEY)
        host.stdin.close()
        with Group.create("127.0.0.1", port, 1, 2, key=KEY, timeout=20) as group:
            assert group.broadcast_obj(None, 0, 10) == BIG
            with pytest.raises(GroupClosed, match="rank 0"):
                group.broadcast_obj(None, 0, 10)
            assert host.wait(10) == (how == "uncaught")


def test_what_was_sent_through_a_host_that_leaves_arrives_or_is_refused():
    def work(say: Any, group: Group) -> None:
        group.barrier(10)
        if group.rank == 0:
            group.recv_obj(1, 10)
            group.close()
        elif group.rank == 1:
            outcome(lambda: group.send_obj("leave now", 0))  # it may be gone before this is over
            sent = 0
            while outcome(lambda sent=sent: group.send_obj(sent, 2)) is None:
                sent += 1
            say(sent)
        else:
            got: list[Any] = []
            while not got or isinstance(got[-1], int):
                got.append(outcome(lambda: group.recv_obj(1, 10)))
            say(got.pop())
            say(got == list(range(len(got))))
            say(len(got))

    with processes(3, work) as roles:
        (sent,) = roles[1].finish()
        last, in_order, got = roles[2].finish()
        assert isinstance(last, GroupClosed)
        assert in_order
        assert isinstance(sent, int), sent
        assert got - sent in (0, 1)  # the one refused may have slipped through


def test_a_member_that_leaves_is_named_after_its_last_words():
    def work(say: Any, group: Group) -> None:
        if group.rank == 2:
            group.send_obj(BIG, 1)
            group.barrier(10)
            return
        group.barrier(10)
        if group.rank == 1:
            say(group.recv_obj(2, 10) == BIG)
        for act in (
            lambda: group.recv_obj(2, 10),
            lambda: group.all_gather_obj(1, 10),
            lambda: group.barrier(10),
        ):
            say(outcome(act))
        say(group.broadcast_obj("still", 0, 10))

    with processes(3, work) as roles:
        said = roles[1].finish()
        assert said.pop(0) is True
        for errors in (said, roles[0].finish()):
            assert errors.pop() == "still"
            assert [type(error) for error in errors] == [GroupClosed] * 3, errors
            assert all("rank 2" in str(error) for error in errors)


def test_a_barrier_names_the_rank_that_does_not_come_at_each_that_came():
    def work(say: Any, group: Group) -> None:
        if group.rank != 1:
            say(outcome(lambda: group.barrier(0.5)))
        group.all_gather_obj("go on", 10)
        say(outcome(lambda: group.barrier(10)))

    with processes(4, work) as roles:
        assert roles[1].finish() == [None]
        for rank in (0, 2, 3):
            failed, done = roles[rank].finish()
            assert isinstance(failed, BarrierFailed)
            assert failed.missing == [1]
            assert done is None


@pytest.mark.parametrize("victim", [0, 1])
def test_a_stopped_rank_is_noticed_after_the_silence_and_not_before(victim: int):
    def work(say: Any, group: Group) -> None:
        say("ready")
        if group.rank == victim:
            say(outcome(lambda: group.recv_obj(2, 20)))
            signal.pause()
        began = time.monotonic()
        say((outcome(lambda: group.recv_obj(victim, 20)), time.monotonic() - began))

    with processes(3, work, peer_timeout=2.0) as roles:
        for role in roles:
            role.hear()
        roles[victim].stop()
        for rank in range(3):
            if rank != victim:
                error, seconds = roles[rank].hear()
                assert isinstance(error, PeerSilent), error
                assert f"rank {victim}" in str(error)
                assert 1.5 < seconds < 9


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_last_to_come_completes_the_group(host: str):
    port = free_port(host)

    def work(say: Any, rank: int) -> None:
        say("starting")
        with Group.create(host, port, rank, 3, key=KEY, timeout=20) as group:
            say(group.all_gather_obj(rank, 10))

    with Role(work, 2) as two, Role(work, 1) as one:
        two.hear(), one.hear()
        with Role(work, 0) as zero:
            for role in (zero, one, two):
                assert role.finish()[-1] == [0, 1, 2]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_death_before_all_are_there_is_told(victim: int):
    port = free_port()

    def work(say: Any, rank: int) -> None:
        group = Group("127.0.0.1", port, rank, 3, key=KEY)
        say("made")
        outcome(lambda: group.wait_until_ready(0.5))
        say("met")
        say(outcome(lambda: group.wait_until_ready(20)))

    with Role(work, 0) as zero, Role(work, 1) as one:
        roles = zero, one
        assert [role.hear() for role in roles] == ["made"] * 2
        assert [role.hear() for role in roles] == ["met"] * 2
        os.kill(roles[victim].pid, signal.SIGKILL)
        start = time.monotonic()
        error = roles[1 - victim].hear()
        assert isinstance(error, RankDied), error
        assert error.rank == victim
        assert time.monotonic() - start < NOTICED
