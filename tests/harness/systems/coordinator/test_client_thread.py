"""A link is kept by its own thread: heard words are logged, and what is told is done there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.runner.observe import scheduling_jitter
from killpoint.systems.coordinator.client_thread import LinkKeeper
from killpoint.systems.coordinator.engine_stub import Stepping
from killpoint.targets.coordinator_messages import Published, Started
from killpoint.targets.coordinator_protocol import Heard


class Lines:
    """A target whose links are lists of words to be heard."""

    def __init__(self) -> None:
        self.beats = 0
        self.gone = False
        self.closed: list[Any] = []
        self.more = threading.Event()

    def link_hears(self, link: list[Heard], seconds: float) -> Heard | None:
        if not link:
            self.more.wait(seconds)
        found = link.pop(0) if link else None
        if isinstance(found, str):
            raise TypeError(found)
        return found

    def link_beats(self, link: list[Heard]) -> None:
        self.beats += 1

    def link_lost(self, link: list[Heard]) -> bool:
        return self.gone

    def link_close(self, link: list[Heard]) -> None:
        self.closed.append(link)


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.fixture
def kept(lines: Lines, tmp_path: Path) -> Iterator[tuple[LinkKeeper, list[Heard], Path]]:
    link: list[Heard] = []
    target: Any = lines
    log = Log(tmp_path / "engine-0.jsonl", "engine-0")
    keeper = LinkKeeper(target, lambda: link, Stepping(0, begins=False), log)
    yield keeper, link, tmp_path
    keeper.close()
    assert lines.closed == [link]


def kinds(folder: Path) -> list[str]:
    return [event.kind for event in History.read(folder).events]


def test_what_it_hears_is_logged_and_steps_its_requests(
    kept: tuple[LinkKeeper, list[Heard], Path],
) -> None:
    keeper, link, folder = kept
    stepping = keeper.stepping
    assert stepping is not None
    keeper.do(lambda _: stepping.accept(3))
    link += [Started(0, members=(0,)), Published(0, True, ((1, 1), None))]
    assert keeper.until(lambda: keeper.words == 2, 5.0)
    assert kinds(folder) == ["heard", "stepped", "heard"]
    assert keeper.last == Published(0, True, ((1, 1), None))
    assert History.read(folder).events[1].data == {"n": 3, "wave": 0}


def test_it_gives_signs_of_life_and_tells_of_losses(
    kept: tuple[LinkKeeper, list[Heard], Path], lines: Lines
) -> None:
    keeper, _, folder = kept
    lines.gone = True
    assert keeper.until(lambda: keeper.lost, 5.0)
    lines.gone = False
    assert keeper.until(lambda: not keeper.lost, 5.0)
    assert lines.beats >= 1
    assert kinds(folder) == ["coordinator-lost", "coordinator-found"]


def test_what_fails_in_its_thread_is_raised_in_the_callers(
    kept: tuple[LinkKeeper, list[Heard], Path],
) -> None:
    keeper, link, _ = kept
    assert keeper.do(lambda mine: mine is link)
    with pytest.raises(ZeroDivisionError):
        keeper.do(lambda _: 1 // 0)
    assert not keeper.until(lambda: False, 0.01)


def test_a_word_that_cannot_be_understood_is_not_the_last(
    kept: tuple[LinkKeeper, list[Any], Path],
) -> None:
    keeper, link, folder = kept
    link += ["?", Published(1, False)]
    assert keeper.until(lambda: keeper.words == 1, 5.0)
    assert kinds(folder) == ["unheard", "heard"]


def test_a_link_that_cannot_be_made_is_said(lines: Lines, tmp_path: Path) -> None:
    target: Any = lines
    with pytest.raises(ZeroDivisionError):
        LinkKeeper(target, lambda: 1 // 0, None, Log(tmp_path / "x.jsonl", "x"))


@pytest.mark.parametrize("stepping", [None, Stepping(0, begins=False)])
def test_a_front_end_has_a_control_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stepping: Stepping | None
) -> None:
    """It may stand on a processor on which no other control is."""
    watched: list[Any] = []
    monkeypatch.setattr(scheduling_jitter, "watch", lambda _log, over: watched.append(over))
    target: Any = Lines()
    keeper = LinkKeeper(target, list, stepping, Log(tmp_path / "x.jsonl", "x"))
    assert [over() for over in watched] == [False] * (stepping is None)
    keeper.close()
    assert all(over() for over in watched)
