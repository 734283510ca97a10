"""Syntax trees are built one at a time, whatever threads do."""

from __future__ import annotations

import ast
import gc
import inspect
import os
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import pytest

from killpoint import syntax

_TEXT = inspect.getsource(ast)


def _yields(_phase: str, _told: dict[str, int]) -> None:
    os.sched_yield()


@contextmanager
def _a_collector_that_yields() -> Generator[None]:
    before = gc.get_threshold()
    gc.callbacks.append(_yields)
    gc.set_threshold(50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(_yields)


def _errors(parse: Callable[[str], ast.Module]) -> list[BaseException | None]:
    with _a_collector_that_yields(), ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(parse, _TEXT) for _ in range(12)]
        return [each.exception() for each in asked]


def test_threads_that_parse_at_once_all_get_their_tree() -> None:
    assert _errors(syntax.parsed) == [None] * 12


@pytest.mark.skipif("sys.version_info >= (3, 12)", reason="CPython 3.12 collects later")
def test_without_the_lock_cpython_mixes_their_depths_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syntax, "_one_at_a_time", nullcontext())
    rounds = (_errors(syntax.parsed) for _ in range(50))
    assert any(isinstance(error, SystemError) for errors in rounds for error in errors)


def test_what_is_no_python_is_said_so() -> None:
    with pytest.raises(SyntaxError):
        syntax.parsed("a b")
