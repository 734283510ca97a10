"""Progress of a campaign while it runs: findings at once, and how far it is."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

from killpoint.campaign import duration
from killpoint.campaign.findings import Finding
from killpoint.campaign.history import CampaignHistory
from killpoint.campaign.journal import Ended, GivenBack

_A_WORD_EVERY = 60.0
"""Seconds between two lines of progress, where there is no terminal."""


class ProgressPrinter:
    """Progress on a console: a status line in a terminal, a line a minute elsewhere."""

    def __init__(self, console: Console, status: Status | None) -> None:
        """``status``: the terminal's line."""
        self._console, self._status = console, status
        self._began = self._told = time.monotonic()
        self._done = self._found = 0

    def going(self, past: CampaignHistory, left: float) -> None:
        """Show how far the campaign is, on its line, or if nothing was printed for long."""
        now = time.monotonic()
        rate = self._done / max(now - self._began, 1e-3)
        text = (
            f"{len(past.ended)} items done, {rate * 60:.0f} a minute, {self._found} new findings,"
            f" {duration.show(left)} left"
        )
        if self._status is not None:
            playing = ", ".join(list(past.open)[:3]) + ("…" if len(past.open) > 3 else "")
            self._status.update(f"{text}; {playing}")
        elif now - self._told >= _A_WORD_EVERY:
            self._told = now
            self._say(text)

    def ended(self, entry: Ended) -> None:
        """An item has ended."""
        self._done += 1
        if entry.word == "infrastructure":
            self._say(f"infrastructure: {entry.key}: {entry.cause}")

    def lost(self, entry: GivenBack) -> None:
        """Report that an item's player is gone; the item is played again."""
        self._say(f"lost, begun again: {entry.key}: {entry.cause}")

    def found(self, finding: Finding) -> None:
        """Something was found that was not known."""
        self._found += 1
        self._say(f"✗ {finding.signature}: {finding.case.cause}")
        if finding.replay is not None:
            self._say(f"  killpoint replay {finding.replay}")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def telling(console: Console) -> Generator[ProgressPrinter]:
    """A teller for a session, on a terminal or not."""
    if not console.is_terminal:
        yield ProgressPrinter(console, None)
        return
    with console.status("starting the target") as status:
        yield ProgressPrinter(console, status)
