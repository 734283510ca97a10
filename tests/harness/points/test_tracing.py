"""A watch that begins inside the target's calls sees them go on; a fork ends its copy of one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from killpoint.points.tracing import abandon, begin_below, traced

OWN = "<below>"
SOURCE = """\
def outer(begin):
    inner(begin)
    a = 1
    return a + 1

def inner(begin):
    begin()
    b = 2
    return b
"""


def is_own(code: CodeType) -> bool:
    return code.co_filename == OWN


def compiled() -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(compile(SOURCE, OWN, "exec"), found)
    return found


def seen(opcodes: bool) -> list[int]:
    """The lines that a watch sees which begins two calls deep; without it they are run again."""
    lines: list[int] = []
    watch = traced(is_own, lambda _, line, _offset: lines.append(line), opcodes)
    code = compiled()
    code["outer"](lambda: begin_below(watch, is_own))
    watch.__exit__(None, None, None)
    count = len(lines)
    code["outer"](lambda: None)
    assert len(lines) == count, "it goes on after its end"
    return lines


def test_the_calls_that_led_there_are_seen_as_they_go_on() -> None:
    assert seen(opcodes=False) == [8, 9, 3, 4]


def test_so_are_their_instructions() -> None:
    found = seen(opcodes=True)
    assert {8, 9, 3, 4} <= {*found} <= {7, 8, 9, 2, 3, 4}
    assert len(found) > 8


def test_a_second_watch_sees_the_same() -> None:
    assert seen(opcodes=False) == seen(opcodes=False)


def test_a_forked_copy_sees_nothing_and_can_be_replaced() -> None:
    lines: list[int] = []
    watch = traced(is_own, lambda _, line, _offset: lines.append(line), False)
    code = compiled()
    status = 0

    def fork() -> None:
        nonlocal status
        begin_below(watch, is_own)
        pid = os.fork()
        if pid == 0:
            try:
                code["inner"](lambda: None)
                abandon()
                fresh = seen(opcodes=False)
            finally:
                os._exit(0 if not lines and fresh == [8, 9, 3, 4] else 1)
        status = os.waitpid(pid, 0)[1]

    code["outer"](fork)
    watch.__exit__(None, None, None)
    assert status == 0
    assert lines == [8, 9, 3, 4]


def test_where_nothing_is_watched_nothing_is_abandoned() -> None:
    before = sys.gettrace()
    abandon()
    assert sys.gettrace() is before


@pytest.mark.skipif(hasattr(sys, "monitoring"), reason="there, a watch is no trace function")
def test_whoever_abandons_a_watch_goes_on_being_measured(tmp_path: Path) -> None:
    """In an interpreter of its own: this one may be measured itself."""
    asks = """
import sys
from coverage import Coverage
from killpoint.points.tracing import abandon, traced
measured = Coverage(data_file=None)
measured.start()
tracer = sys.gettrace()
with traced(lambda code: False, print, False):
    abandon()
    sys.exit(sys.gettrace() is not tracer)
"""
    bare = {"PYTHONPATH": os.pathsep.join(sys.path)}
    asked = [sys.executable, "-c", asks]
    assert subprocess.run(asked, env=bare, cwd=tmp_path, timeout=30, check=False).returncode == 0
