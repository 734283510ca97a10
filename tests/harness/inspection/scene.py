"""Pieces of what a look finds, for tests that need no process."""

from killpoint.inspection.model import Process, Ring, Slot, Thread


def thread(waits="", name="MainThread", at="work (engine.py:1)"):
    return Thread(name, (at,), at, waits)


def process(pid, parent=1, waits="", state="S", command="python engine.py", age=10.0):
    return Process(pid, parent, command, state, age, (thread(waits),))


def ring(*unread, readers=2, writer=10, pids=None, mappers=(10, 20, 21), **more):
    """``unread``: for each slot the readers that have not read it, or None if it is not written."""
    slots = tuple(
        Slot(index, missing is not None, tuple(missing or ()), index)
        for index, missing in enumerate(unread)
    )
    named = {0: 20, 1: 21} if pids is None else pids
    return Ring("psm_1", "vllm", readers, slots, mappers, writer, named, **more)


def cast(*processes):
    return {each.pid: each for each in processes}
