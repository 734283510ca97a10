"""Line and opcode points: every place of the target's code, in order, as many each time.

Needs only the standard library and pytest: run it by hand under 3.12 and later too, where
``sys.monitoring`` takes the place of ``sys.settrace``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from types import CodeType
from typing import Any

import pytest

from killpoint.points.lines import lines
from killpoint.points.opcodes import opcodes
from killpoint.points.tracing import PASSED_OVER

_SOURCE = """
def add(numbers):
    total = 0
    for number in numbers:
        total += number
    return total

def guarded(log):
    try:
        log.append("in")
        log.append("still in")
    finally:
        log.append("out")

def swallows(log):
    try:
        log.append("in")
    except ValueError:
        log.append("caught")
    return log
"""
_OWN: dict[str, object] = {}
exec(compile(_SOURCE, "<target>", "exec"), _OWN)


def _own(code: CodeType) -> bool:
    return code.co_filename == "<target>"


def _call(name: str, *arguments: object) -> object:
    return _OWN[name](*arguments)


Watch = Callable[..., Any]

either = pytest.mark.parametrize("watch", [lines, opcodes])


def _count(watch: Watch, name: str, *arguments: object) -> list[tuple[str, int]]:
    seen: list[tuple[str, int]] = []
    with watch(_own, lambda code, line, _offset: seen.append((code.co_name, line))):
        _call(name, *arguments)
    return seen


def test_every_executed_line_is_met_before_it_runs_in_order() -> None:
    assert [line for _, line in _count(lines, "add", [7])][:4] == [3, 4, 5, 4]


def test_every_instruction_is_met_and_there_are_several_in_a_line() -> None:
    met = [line for _, line in _count(opcodes, "add", [7])]
    assert met.count(3) > 1
    assert met.count(5) > 3
    assert set(met) >= {3, 4, 5, 6}


@either
def test_the_same_operation_has_the_same_count_every_time(watch: Watch) -> None:
    counts = [len(_count(watch, "add", list(range(20)))) for _ in range(5)]
    assert counts[0] > 20
    assert len(set(counts)) == 1


@either
def test_only_the_targets_own_code_is_met(watch: Watch) -> None:
    assert {name for name, _ in _count(watch, "add", [1])} == {"add"}
    seen: list[int] = []
    with watch(lambda _: False, lambda _code, line, _offset: seen.append(line)):
        _call("add", [1])
    assert seen == []


@either
def test_nothing_is_met_after_the_context(watch: Watch) -> None:
    seen: list[int] = []
    with watch(_own, lambda _code, line, _offset: seen.append(line)):
        _call("add", [1])
    before = len(seen)
    _call("add", [1])
    assert len(seen) == before


@either
def test_a_context_leaves_the_tracer_it_found(watch: Watch) -> None:
    def mine(*_: object) -> None:
        return None

    sys.settrace(mine)
    try:
        with watch(_own, lambda *_: None):
            _call("add", [1])
        assert sys.gettrace() is mine
    finally:
        sys.settrace(None)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_exception_appears_in_the_targets_code_at_its_line(at: int) -> None:
    met = 0

    def strike(_code: CodeType, _line: int, _offset: int) -> None:
        nonlocal met
        met += 1
        if met == at + 1:
            raise KeyError("injected")

    log: list[str] = []
    with pytest.raises(KeyError, match="injected") as caught, lines(_own, strike):
        _call("guarded", log)
    assert caught.traceback[-1].name == "strike"
    assert "guarded" in [entry.name for entry in caught.traceback]
    assert log == [["out"], ["out"], ["in", "out"]][at] if at else log == []


def test_an_exception_may_appear_before_every_instruction() -> None:
    """Whatever was begun is ended: after each of them the block was left, or never entered."""
    total = len(_count(opcodes, "guarded", list[str]()))
    assert total > 12
    logs: set[tuple[str, ...]] = set()
    for at in range(total):
        log: list[str] = []
        with pytest.raises(KeyError, match="injected"), opcodes(_own, _Striking(at)):
            _call("guarded", log)
        logs.add(tuple(log))
    assert {(), ("out",), ("in", "out"), ("in", "still in", "out")} <= logs


class _Striking:
    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, _code: CodeType, _line: int, _offset: int) -> None:
        self.left -= 1
        if self.left == -1:
            raise KeyError("injected")


@pytest.mark.parametrize("mode", ["first", "middle", "last"])
def test_a_kill_at_an_instruction_is_a_death_by_that_signal(mode: str) -> None:
    total = len(_count(opcodes, "add", [7, 8]))
    at = {"first": 0, "middle": total // 2, "last": total - 1}[mode]
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        met = 0

        def strike(_code: CodeType, _line: int, _offset: int) -> None:
            nonlocal met
            met += 1
            if met == at + 1:
                os.write(write, met.to_bytes(4, "big"))
                os.kill(os.getpid(), signal.SIGKILL)

        with opcodes(_own, strike):
            _call("add", [7, 8])
        os._exit(0)
    os.close(write)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert int.from_bytes(os.read(read, 4), "big") == at + 1
    os.close(read)


@either
def test_the_target_may_catch_what_was_raised_in_it(watch: Watch) -> None:
    def strike(_code: CodeType, line: int, _offset: int) -> None:
        if line == 17 and not log:
            raise ValueError("injected")

    log: list[str] = []
    with watch(_own, strike):
        assert _call("swallows", log) == ["caught"]


@either
def test_a_second_context_starts_afresh(watch: Watch) -> None:
    assert _count(watch, "add", [1, 2]) == _count(watch, "add", [1, 2])


def _others_lines(watch: Watch) -> set[int]:
    seen: set[int] = set()
    with watch(_own, lambda _code, _line, _offset: seen.add(threading.get_ident())):
        thread = threading.Thread(target=_call, args=("add", list(range(50))))
        thread.start()
        thread.join(10)
        _call("add", [1])
    return seen


@either
def test_only_the_operations_own_thread_is_met(watch: Watch) -> None:
    assert _others_lines(watch) == {threading.get_ident()}


@either
def test_lines_that_are_passed_over_are_no_points(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = _count(watch, "guarded", [])
    lines_of = sorted({line for _, line in whole})
    monkeypatch.setitem(PASSED_OVER, "<target>", frozenset(lines_of[1:3]))
    assert _count(watch, "guarded", []) == [e for e in whole if e[1] not in lines_of[1:3]]
