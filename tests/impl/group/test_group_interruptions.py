"""An exception before any line of a call: the call had no effect, or all of it (R9, X1)."""

import socket
import threading
from types import FrameType
from typing import Any

import pytest

from refengine.errors import DeadlinePassed
from refengine.group import Group, StoreGroup

from ..roles import until
from ..striking import Striker, strikes
from .members import KEY, free_port, members, port_of, together
from .test_store_group import Shelf


def test_a_receive_takes_its_object_or_leaves_it():
    with members(2) as groups:
        inbox = groups[0]._context.member.inboxes[1, 1]
        for at, striker in enumerate(strikes()):
            groups[1].send_obj(("x", at), 0)
            until(inbox.any)
            got = striker.during(lambda: groups[0].recv_obj(1, 10))
            assert (got or [groups[0].recv_obj(1, 10)]) == [("x", at)]
            assert not inbox.any()


@pytest.mark.parametrize("kind", ["send", "broadcast"])
def test_a_send_is_done_once_or_not_at_all(kind: str):
    with members(2) as groups:
        reader, writer = groups

        def send(what: Any) -> None:
            if kind == "send":
                writer.send_obj(what, 0)
            else:
                writer.broadcast_obj(what, 1)

        def receive() -> Any:
            return reader.recv_obj(1, 10) if kind == "send" else reader.broadcast_obj(None, 1, 10)

        for at, striker in enumerate(strikes()):
            done = striker.during(lambda at=at: send(("x", at)))
            send(("end", at))
            got = receive()
            if got == ("x", at):
                got = receive()
            else:
                assert not done
            assert got == ("end", at)


@pytest.mark.parametrize("kind", ["gather", "barrier"])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_meeting_is_come_back_from_once(kind: str, rank: int):
    with members(2) as groups:
        struck, other = groups[rank], groups[1 - rank]
        for at, striker in enumerate(strikes()):

            def act(group: Group, at: int = at) -> Any:
                if kind == "gather":
                    return group.all_gather_obj((group.rank, at), 10)
                return group.barrier(10)

            theirs: list[Any] = []
            thread = threading.Thread(target=lambda act=act, out=theirs: out.append(act(other)))
            thread.start()
            got = striker.during(lambda act=act: act(struck)) or [act(struck)]
            thread.join(15)
            assert got == theirs == [[(0, at), (1, at)] if kind == "gather" else None]


def test_calls_on_a_store_are_done_once_or_not_at_all():
    shelf = Shelf()
    reader, writer = (StoreGroup(shelf, rank, 2, key=KEY) for rank in range(2))
    for at, striker in enumerate(strikes()):
        done = striker.during(lambda at=at: writer.send_obj(("x", at), 0))
        writer.send_obj(("end", at), 0)
        got = reader.recv_obj(1, 1)
        if got == ("x", at):
            got = reader.recv_obj(1, 1)
        else:
            assert not done
        assert got == ("end", at)
    for at, striker in enumerate(strikes()):
        writer.send_obj(("y", at), 0)
        got = striker.during(lambda: reader.recv_obj(1, 1))
        assert (got or [reader.recv_obj(1, 1)]) == [("y", at)]


class InTheGroup(Striker):
    """Strikes lines of the group's own files alone; what lies below has tests of its own."""

    files = ("/group/",)

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        own = any(each in frame.f_code.co_filename for each in self.files)
        return super().trace(frame, event, argument) if own else None


class InItsLinesToo(InTheGroup):
    files = ("/group/", "/transport/")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_struck_making_leaves_neither_threads_nor_a_port(rank: int) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    before = set(threading.enumerate())
    for at in range(1, 200):
        striker = InTheGroup(at)
        made = striker.during(lambda: Group("127.0.0.1", port, rank, 2, key=KEY))
        if made:
            made[0].close(0.0)
            break
        until(lambda: set(threading.enumerate()) <= before)
    assert at > 20


@pytest.mark.parametrize("rank", [0, 1])
def test_a_struck_create_is_called_again_and_the_others_notice_nothing(rank: int) -> None:
    """Some of the lines; the harness's R9/exception-in-join strikes all, in processes."""
    at = 5
    while True:
        port, striker = free_port(), InItsLinesToo(at)

        def create(rank: int, port: int = port) -> Group:
            return Group.create("127.0.0.1", port, rank, 2, key=KEY, timeout=20, peer_timeout=5.0)

        theirs: list[Group] = []
        thread = threading.Thread(
            target=lambda out=theirs, create=create: out.append(create(1 - rank))
        )
        thread.start()
        groups = striker.during(lambda create=create: create(rank)) or [create(rank)]
        thread.join(25)
        groups += theirs
        assert together(groups, lambda g: g.all_gather_obj(g.rank, 10)) == [[0, 1]] * 2, striker
        together(groups, lambda g: g.close(2))
        if striker.lines < at:
            break
        at += 17
    assert at > 100


@pytest.mark.parametrize("rank", [0, 1])
def test_a_struck_wait_for_the_others_is_called_again(rank: int) -> None:
    for striker in strikes(5):
        host = Group("127.0.0.1", 0, 0, 2, key=KEY)
        groups = [host, Group("127.0.0.1", port_of(host), 1, 2, key=KEY)]
        thread = threading.Thread(target=groups[1 - rank].wait_until_ready, args=(10,))
        thread.start()
        striker.during(lambda groups=groups: groups[rank].wait_until_ready(10))
        groups[rank].wait_until_ready(10)
        thread.join(15)
        assert together(groups, lambda g: g.all_gather_obj(g.rank, 10)) == [[0, 1]] * 2
        together(groups, lambda g: g.close(2))


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_create_that_ran_out_of_time_is_called_again_while_the_others_wait(rank: int) -> None:
    port = free_port()

    def create(rank: int, timeout: float) -> Group:
        return Group.create("127.0.0.1", port, rank, 3, key=KEY, timeout=timeout)

    others = [each for each in range(3) if each != rank]
    groups: list[Group] = []
    first = threading.Thread(target=lambda: groups.append(create(others[0], 20)))
    first.start()
    with pytest.raises(DeadlinePassed, match=f"rank(s 0,)? {others[1]}|to answer"):
        create(rank, 0.3)
    second = threading.Thread(target=lambda: groups.append(create(others[1], 20)))
    second.start()
    groups.append(create(rank, 20))
    for thread in (first, second):
        thread.join(25)
    assert together(groups, lambda g: g.all_gather_obj(g.rank, 10)) == [[0, 1, 2]] * 3
    together(groups, lambda g: g.close(2))
