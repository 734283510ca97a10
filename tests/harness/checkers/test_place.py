"""The target's own line of a violation: who was stuck, what failed, what was struck."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import Tape

from killpoint.checkers.finding import hangs
from killpoint.checkers.place import OwnFiles, place_of
from killpoint.verdict import TargetLine, Violation

_SOURCE = """
class Queue:
    def acquire_read(self):
        while True:
            sched_yield()

    def send(self):
        def again():
            raise TimeoutError

        again()


def sched_yield():
    pass
"""


@pytest.fixture
def own(tmp_path: Path) -> OwnFiles:
    (tmp_path / "shm").mkdir()
    file = tmp_path / "shm" / "ring.py"
    file.write_text(_SOURCE, "utf-8")
    return OwnFiles({"shm/ring.py": str(file)})


def _stuck(*stack: str) -> Tape:
    tape = Tape().waits()
    tape.tell("director", "reached", target="writer", where="ring.py:9 in again")
    tape.kills("writer").later(4000)
    return tape.tell("director", "hang", target="reader-0", op="receive", stack=list(stack))


def test_who_hangs_stood_in_the_innermost_frame_of_the_targets(own: OwnFiles) -> None:
    tape = _stuck("wait (threading.py:10)", "acquire_read (shm/ring.py:4)", "send (shm/ring.py:11)")
    (found,) = hangs(tape.history())
    place = place_of(found, own, tape.history())
    assert place == TargetLine("shm/ring.py", "Queue.acquire_read", 4)


def test_the_turns_of_a_loop_are_its_callers(own: OwnFiles) -> None:
    tape = _stuck("sched_yield (shm/ring.py:15)", "acquire_read (shm/ring.py:5)")
    (found,) = hangs(tape.history())
    assert " in acquire_read (shm/ring.py:5): it waits" in found.cause
    place = place_of(found, own, tape.history())
    assert place == TargetLine("shm/ring.py", "Queue.acquire_read", 5)


def test_of_a_stack_without_the_targets_code_it_is_where_the_fault_struck(own: OwnFiles) -> None:
    tape = _stuck("poll (zmq/sugar/poll.py:106)", "_wait (killpoint/runner/ring.py:4000)")
    (found,) = hangs(tape.history())
    place = place_of(found, own, tape.history())
    assert place == TargetLine("shm/ring.py", "Queue.send.again", 9)


@pytest.mark.parametrize(
    ("cause", "function", "line"),
    [
        ("message 3 was lost: TimeoutError (ring.py:9)", "Queue.send.again", 9),
        ("an exception struck writer at ring.py:11 in send, and more", "Queue.send", 11),
        ("the start failed: File \"shm/ring.py\", line 11, in send again() File"
         " \"shm/ring.py\", line 9, in again raise TimeoutError", "Queue.send.again", 9),
        ("it stood in acquire_read (shm/ring.py:99)", "Queue.acquire_read", 99),
        ("the module failed at ring.py:1", "", 1),
    ],
)  # fmt: skip
def test_what_a_cause_names(cause: str, function: str, line: int, own: OwnFiles) -> None:
    place = place_of(Violation("lost", cause), own)
    assert place == TargetLine("shm/ring.py", function, line)


@pytest.mark.parametrize(
    "cause",
    ["message 3 never came", "TimeoutError (ring.py:400)", "raised at other.py:3 in send"],
)
def test_what_names_no_line_of_the_targets_has_no_place(cause: str, own: OwnFiles) -> None:
    assert place_of(Violation("lost", cause), own) is None


def test_the_last_error_of_the_evidence(own: OwnFiles) -> None:
    lines = [
        "reader-0 got error=A (ring.py:4)",
        "reader-0 got error=B (ring.py:9)",
        "x (ring.py:3)",
    ]
    place = place_of(Violation("late", "it took 6 s", lines), own)
    assert place == TargetLine("shm/ring.py", "Queue.send.again", 9)
    assert place is not None
    assert place.words() == "shm/ring.py:9 in Queue.send.again"
