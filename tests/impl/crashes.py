"""SIGKILL at a random line of a random role: who survives must see the truth.

`python -m impl.crashes FIRST COUNT` (from tests/) plays that many seeds.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import refengine
from refengine.errors import DeadlinePassed, PeerDied, QueueClosed, RefengineError
from refengine.queue import Handle, MessageQueue

from .roles import Role, leftovers

HOME = str(Path(refengine.__file__).parent)
MESSAGES, CHUNK, CHUNKS = 12, 4096, 4


class Killer:
    """Counts lines run in the package; dies at the n-th."""

    def __init__(self, at: int | None) -> None:
        self.at, self.lines, self.tail = at, 0, ""

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename.startswith(HOME):
            if event == "line":
                self.lines += 1
                if self.lines == self.at:
                    os.kill(os.getpid(), signal.SIGKILL)
            return self.trace
        return None


def message(i: int) -> tuple[int, bytes]:
    """Every third one overflows."""
    return i, bytes([i]) * (20_000 if i % 3 == 2 else 100)


def writer(say: Any, policy: str, kill_at: int | None) -> None:
    killer = Killer(kill_at)
    queue = MessageQueue(2, max_chunk_bytes=CHUNK, max_chunks=CHUNKS, reader_policy=policy)
    say(queue.export_handle())
    sys.settrace(killer.trace)
    try:
        queue.wait_until_ready(5)
        for i in range(MESSAGES):
            queue.enqueue(message(i), 20)
            say(i)
        queue.close()
        sys.settrace(None)
        say(("lines", killer.lines))
    except RefengineError as error:
        sys.settrace(None)
        queue.close()
        say(error)


def reader(say: Any, handle: Handle, rank: int, kill_at: int | None) -> None:
    killer = Killer(kill_at)
    sys.settrace(killer.trace)
    queue = None
    try:
        queue = MessageQueue.create_from_handle(handle, rank)
        queue.wait_until_ready(5)
        while True:
            i, body = queue.dequeue(20)
            assert (i, body) == message(i), "torn"
            say(i)
    except RefengineError as error:
        if queue is not None:
            queue.close()
        sys.settrace(None)
        say(error)
        say(("lines", killer.lines))


def play(seed: int) -> str:
    """One run; raises AssertionError if a survivor saw anything but the truth."""
    choose = random.Random(seed)
    victim = choose.choice(["writer", "reader", "reader"])
    policy = choose.choice(["raise", "continue"])
    at = int(choose.uniform(1, 2000 if victim == "writer" else 1600))
    started = time.monotonic()
    w = Role(writer, policy, at if victim == "writer" else None)
    handle = w.hear()
    rs = [Role(reader, handle, i, at if victim == "reader" and i == 1 else None) for i in (0, 1)]
    for role in (w, *rs):
        role.finish(25)
    killed = {r.pid for r in (w, *rs) if os.WIFSIGNALED(r.status or 0)}
    heard = [r.said for r in rs]
    what = f"seed {seed} {victim} line {at} {policy}: writer {w.said[1:]} readers {heard}"
    published = [s for s in w.said if isinstance(s, int)]
    for role in rs:
        got = [s for s in role.said if isinstance(s, int)]
        assert got == list(range(len(got))), what
        if role.pid not in killed:
            check_reader(role, got, published, w.pid in killed, what)
    if w.pid not in killed:
        check_writer(w, bool(killed), policy, what)
    assert not leftovers(w.pid), what
    assert time.monotonic() - started < 15, what
    return what


def check_reader(
    role: Role, got: list[int], sent: list[int], writer_killed: bool, what: str
) -> None:
    errors = [s for s in role.said if isinstance(s, RefengineError)]
    assert len(errors) == 1, what
    if writer_killed:
        assert isinstance(errors[0], PeerDied | QueueClosed), what
        inline = next((i for i in range(len(got), MESSAGES) if i % 3 == 2), MESSAGES)
        assert not sent or len(got) >= min(sent[-1] + 1, inline), what
    else:
        early = not got and not sent  # the rendezvous failed: a reader died before it connected
        assert isinstance(
            errors[0], QueueClosed | PeerDied | DeadlinePassed if early else QueueClosed
        ), what
        assert got == sent, what


def check_writer(role: Role, reader_killed: bool, policy: str, what: str) -> None:
    errors = [s for s in role.said if isinstance(s, RefengineError)]
    if not reader_killed or (policy == "continue" and 0 in role.said):
        assert not errors, what
    else:
        early = 0 not in role.said
        assert all(
            isinstance(e, PeerDied | DeadlinePassed | QueueClosed if early else PeerDied)
            for e in errors
        ), what


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    reached = 0
    for seed in range(first, first + count):
        text = play(seed)
        if "-v" in sys.argv:
            print(text[:300], flush=True)
    print("all", count, "held")
