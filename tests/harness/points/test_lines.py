"""Line points: every line of the target's code, in order, the same number each time.

Needs only the standard library and pytest: run it by hand under 3.12 and later too, where
``sys.monitoring`` takes the place of ``sys.settrace``.
"""

from __future__ import annotations

import sys
import threading
from types import CodeType

import pytest

from killpoint.points.lines import lines

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


def _count(name: str, *arguments: object) -> list[tuple[str, int]]:
    seen: list[tuple[str, int]] = []
    with lines(_own, lambda code, line: seen.append((code.co_name, line))):
        _call(name, *arguments)
    return seen


def test_every_executed_line_is_met_before_it_runs_in_order() -> None:
    assert [line for _, line in _count("add", [7])][:4] == [3, 4, 5, 4]


def test_the_same_operation_has_the_same_count_every_time() -> None:
    counts = [len(_count("add", list(range(20)))) for _ in range(5)]
    assert counts[0] > 20
    assert len(set(counts)) == 1


def test_only_the_targets_own_code_is_met() -> None:
    assert {name for name, _ in _count("add", [1])} == {"add"}
    seen: list[int] = []
    with lines(lambda _: False, lambda _code, line: seen.append(line)):
        _call("add", [1])
    assert seen == []


def test_nothing_is_met_after_the_context() -> None:
    seen: list[int] = []
    with lines(_own, lambda _code, line: seen.append(line)):
        _call("add", [1])
    before = len(seen)
    _call("add", [1])
    assert len(seen) == before


def test_a_context_leaves_the_tracer_it_found() -> None:
    def mine(*_: object) -> None:
        return None

    sys.settrace(mine)
    try:
        with lines(_own, lambda *_: None):
            _call("add", [1])
        assert sys.gettrace() is mine
    finally:
        sys.settrace(None)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_exception_appears_in_the_targets_code_at_its_line(at: int) -> None:
    met = 0

    def strike(_code: CodeType, _line: int) -> None:
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


def test_the_target_may_catch_what_was_raised_in_it() -> None:
    def strike(_code: CodeType, line: int) -> None:
        if line == 17:
            raise ValueError("injected")

    log: list[str] = []
    with lines(_own, strike):
        assert _call("swallows", log) == ["caught"]


def test_a_second_context_starts_afresh() -> None:
    assert _count("add", [1, 2]) == _count("add", [1, 2])


def _others_lines() -> set[int]:
    seen: set[int] = set()
    with lines(_own, lambda _code, _line: seen.add(threading.get_ident())):
        thread = threading.Thread(target=_call, args=("add", list(range(50))))
        thread.start()
        thread.join(10)
        _call("add", [1])
    return seen


def test_only_the_operations_own_thread_is_met() -> None:
    assert _others_lines() == {threading.get_ident()}
