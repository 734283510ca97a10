"""Exceptions from outside: a handler raises inside the target's code, and nowhere else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.runner.points.interruption import (
    InjectedError,
    Interrupted,
    Interrupter,
    comes_of_a_strike,
    isolated,
)

_OWN: dict[str, Any] = {}
exec(compile("def work(act):\n    act()\n    return True\n", "<own>", "exec"), _OWN)


class Stand:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = Log(folder / "writer.jsonl", "writer")
        self.interrupter = Interrupter(_is_own, self.log)
        self.interrupter.install()

    def events(self) -> list[tuple[str, str]]:
        found = History.read(self.folder).of("raised", "spared")
        return [(event.kind, event.text("where")) for event in found]


def _is_own(code: CodeType) -> bool:
    return code.co_filename == "<own>"


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    before = signal.getsignal(signal.SIGUSR1)
    made = Stand(tmp_path)
    yield made
    signal.signal(signal.SIGUSR1, before)
    made.log.close()


def test_the_handler_raises_where_the_target_stands(stand: Stand) -> None:
    with pytest.raises(Interrupted, match="<own>:2 in work"):
        _OWN["work"](stand.interrupter.strike)
    assert stand.events() == [("raised", "<own>:2 in work")]


def test_a_signal_from_elsewhere_does_the_same(stand: Stand) -> None:
    with pytest.raises(Interrupted):
        _OWN["work"](lambda: os.kill(os.getpid(), signal.SIGUSR1))


def test_outside_of_the_target_nothing_is_raised(stand: Stand) -> None:
    stand.interrupter.strike()
    assert stand.events() == [("spared", "")]


def test_no_except_of_the_targets_own_errors_catches_it() -> None:
    assert not issubclass(Interrupted, Exception)


def _made_of(struck: BaseException, how: str) -> BaseException:
    try:
        try:
            raise struck
        except BaseException as error:
            if how == "from":
                raise ValueError("cannot encode") from error
            if how == "from none":
                raise ValueError("cannot encode") from None
            raise ValueError("cannot encode")  # noqa: B904  without a word of where it comes from
    except ValueError as made:
        return made


@pytest.mark.parametrize("how", ["from", "from none", "in passing"])
@pytest.mark.parametrize("struck", [InjectedError("x"), Interrupted("x")])
def test_what_the_target_makes_of_a_strike_comes_of_it(struck: BaseException, how: str) -> None:
    assert comes_of_a_strike(struck)
    assert comes_of_a_strike(_made_of(struck, how))


def test_an_error_of_the_targets_own_does_not() -> None:
    assert not comes_of_a_strike(_made_of(KeyError("its own"), "from"))


def _handles() -> None:
    try:
        _OWN["gone"]
    except KeyError:
        return


def _struck(at: int) -> bool:
    """Whether there was such a line of it."""
    lines = 0

    def on(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        if frame.f_code is not _handles.__code__:
            return None
        lines += event == "line"
        if event == "line" and lines == at:
            raise InjectedError
        return on

    before = sys.gettrace()
    sys.settrace(on)
    try:
        _handles()
    except InjectedError:
        return True
    finally:
        sys.settrace(before)
    return False


def test_a_struck_except_clause_is_over_with_the_order():
    strikes = 0
    while isolated(partial(_struck, strikes + 1)):
        strikes += 1
        assert sys.exc_info() == (None, None, None), strikes
    assert strikes == 4
    assert isolated(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError) as told:
        isolated(lambda: 1 // 0)
    assert told.value.__context__ is None
