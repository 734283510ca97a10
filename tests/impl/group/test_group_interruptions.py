"""An exception before any line of a call: the call had no effect, or all of it (R9, X1)."""

import socket
import threading
from types import FrameType
from typing import Any

import pytest

from refengine.group import Group, StoreGroup

from ..roles import until
from ..striking import Striker, strikes
from .members import KEY, members
from .test_store_group import Shelf


def test_a_receive_takes_its_object_or_leaves_it():
    with members(2) as groups:
        inbox = groups[0]._seat.member.inboxes[1, 1]
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

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        return (
            super().trace(frame, event, argument) if "/group/" in frame.f_code.co_filename else None
        )


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
