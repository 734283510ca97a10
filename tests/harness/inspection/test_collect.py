"""Processes that end while they are looked at: what is left is told, and it is no all clear."""

import os
import signal
from multiprocessing import get_context

import pytest

from killpoint.errors import BadUsage
from killpoint.inspection.collect import look

_FORK = get_context("fork")


def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_who_ended_meanwhile_is_not_there():
    process = _FORK.Process(target=signal.pause)
    process.start()
    with pytest.raises(BadUsage, match=f"process {process.pid} ended while it was looked at"):
        look(process.pid, lambda _: end(process.pid))


def test_whom_it_has_left_behind_is_told_of():
    told, tell = _FORK.Pipe()

    def launch():
        child = os.fork()
        if child:
            tell.send(child)
        signal.pause()

    process = _FORK.Process(target=launch)
    process.start()
    child = told.recv()
    try:
        picture = look(process.pid, lambda _: end(process.pid))
    finally:
        os.kill(child, signal.SIGKILL)
    assert [each.pid for each in picture.processes] == [child]
    (culprit,) = picture.culprits
    assert f"pid {child} (" in culprit.sentence
    assert "was begun by a process that is gone" in culprit.sentence
    assert picture.unsure[0].startswith(f"pid {process.pid} (")
    assert "ended while it was looked at; whether the 1 process that" in picture.unsure[0]
