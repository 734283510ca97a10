"""A judgement as it goes on: live at a terminal, elsewhere violations and a line now and then."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from killpoint.progress import text as words
from killpoint.progress.progress_state import Score
from killpoint.verdict import CaseOutcome

_EVERY = 60.0
"""Seconds between two lines where there is no terminal."""
_ROWS = 8
"""Cases that a live display names."""


class Watcher:
    """Receiver of a judgement's news; a violation is shown at once, to be replayed."""

    def __init__(self, score: Score, console: Console) -> None:
        self._score = score
        self._console = console

    def told(self, case: str, points_done: int, points_counted: int) -> None:
        """A case has begun, or its sweep has gone on."""
        self._score.told(case, points_done, points_counted)
        self._news()

    def ended(self, outcome: CaseOutcome, _done: int, _total: int) -> None:
        """A case has ended."""
        self._score.ended(outcome)
        if text := words.violation(outcome):
            self.say(text)
        self._news()

    def say(self, text: str) -> None:
        """A line for people, at once."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _news(self) -> None:
        """Something has changed; a live display looks by itself."""


class _FromAfar(Watcher):
    """Watcher that writes to a log: no more than a line a minute."""

    def __init__(self, score: Score, console: Console) -> None:
        super().__init__(score, console)
        self._spoke = score.clock()

    def _news(self) -> None:
        if self._score.clock() - self._spoke < _EVERY or self._score.done == self._score.total:
            return
        self._spoke = self._score.clock()
        going_on = words.longest(self._score)
        self.say(words.headline(self._score) + (f"; {going_on}" if going_on else ""))


@contextlib.contextmanager
def watching(console: Console, score: Score) -> Generator[Watcher]:
    """Show a score until this is left."""
    if not console.is_terminal:
        yield _FromAfar(score, console)
        return
    spinner = Spinner("dots")
    live = Live(
        console=console,
        get_renderable=lambda: picture(score, spinner),
        refresh_per_second=4,
        transient=True,
    )
    with live:
        yield Watcher(score, console)


def picture(score: Score, spinner: Spinner) -> RenderableType:
    """The display: a headline, a row for each case that goes on, and what ended last."""
    now = score.clock()
    running = score.running()
    spinner.update(text=Text(words.headline(score) if running or score.done else "starting"))
    rows = Table.grid(padding=(0, 2))
    for each in running[:_ROWS]:
        rows.add_row("", each.id, words.span(now - each.since), words.sweep(each, now))
    shown: list[RenderableType] = [spinner, rows]
    if len(running) > _ROWS:
        shown.append(Text(f"  and {len(running) - _ROWS} more"))
    if (last := score.last) is not None:
        shown.append(Text(f"  last: {last.id} {last.outcome}, {words.span(last.seconds)}"))
    return Group(*shown)
