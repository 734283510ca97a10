"""What of pipes and sockets a process is seen to hold."""

from __future__ import annotations

import multiprocessing
import os
import socket

from killpoint.history.event import Event
from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.runner.observe import open_fds


def test_the_two_ends_of_a_pipe_are_told_apart_and_a_closed_one_is_not_shown() -> None:
    reading, writing = os.pipe()
    inode = os.fstat(reading).st_ino
    try:
        assert {f"pipe:{inode}:r", f"pipe:{inode}:w"} <= {*open_fds.ends(os.getpid())}
    finally:
        os.close(writing)
    assert f"pipe:{inode}:w" not in open_fds.ends(os.getpid())
    os.close(reading)


def test_each_end_of_a_socket_pair_has_a_name_of_its_own() -> None:
    one, other = socket.socketpair()
    with one, other:
        names = {f"socket:{os.fstat(each.fileno()).st_ino}" for each in (one, other)}
        assert len(names) == 2
        assert names <= {*open_fds.ends(os.getpid())}


def test_a_process_that_is_gone_shows_nothing(tmp_path) -> None:
    assert open_fds.ends(2**22 + 1) == []
    log = Log(tmp_path / "director.jsonl", "director")
    open_fds.record(log, "worker-0", 2**22 + 1)
    log.close()
    (event,) = History.read(tmp_path).events
    assert isinstance(event, Event)
    assert (event.kind, event.text("target"), event.data["ends"]) == ("open-ends", "worker-0", [])


def test_the_record_tells_which_sockets_are_joined(tmp_path) -> None:
    one, other = socket.socketpair()
    log = Log(tmp_path / "director.jsonl", "director")
    with one, other:
        one_inode, other_inode = (os.fstat(each.fileno()).st_ino for each in (one, other))
        open_fds.record(log, "worker-0", os.getpid())
    log.close()
    (event,) = History.read(tmp_path).events
    assert isinstance(event.data["peers"], dict)
    names = [f"socket:{number}" for number in (one_inode, other_inode)]
    assert [event.data["peers"][name] for name in names] == names[::-1]


def test_what_a_forked_sibling_copies_of_cpythons_own_is_known_for_it() -> None:
    context = multiprocessing.get_context("fork")
    go = context.Event()
    children = [context.Process(target=go.wait, args=(60.0,), daemon=True) for _ in range(2)]
    before = {*open_fds.ends(os.getpid())}
    for child in children:
        child.start()
    try:
        shared = {*open_fds.ends(children[1].pid or 0)} & {*open_fds.ends(os.getpid())} - before
        assert shared  # the first one's sentinels, in the hands of the second
        assert shared <= {*open_fds.interpreters_own()}
    finally:
        go.set()
        for child in children:
            child.join(30.0)
