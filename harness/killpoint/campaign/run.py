"""One session of a campaign: begin items while they fit, take what comes back, until time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from killpoint.campaign import examples, reached
from killpoint.campaign.findings import Finding, Findings
from killpoint.campaign.history import CampaignHistory
from killpoint.campaign.item import Item
from killpoint.campaign.journal import Begun, Closed, Ended, GivenBack, Journal, Session, Why
from killpoint.campaign.plan import Plan
from killpoint.campaign.reached_report import write_never_reached
from killpoint.campaign.settings import Settings
from killpoint.campaign.work_order import Lost, WorkOrder, WorkResult
from killpoint.campaign.worker_pool import WorkerPool
from killpoint.errors import CannotWork

_TRIES = 3
"""Number of times that an item may take its player along before the harness has failed."""
_HOPELESS = 20
"""Number of harness failures in a row that end the session: they are no bad luck."""
_LOOKS_EVERY = 0.5
"""Seconds within which an interrupt is obeyed."""
_SHRINKING = 60.0
_LEAST = 3.0
"""Seconds without which no finding is shrunk."""
_HANGS = {False: 600.0, True: 7200.0}
"""Seconds after which an item, at full strength or not, is taken to hang at the earliest."""


class Tell(Protocol):
    """Receiver of a campaign's progress."""

    def going(self, past: CampaignHistory, left: float) -> None:
        """The campaign goes on, for so many seconds more; called every now and then."""
        ...

    def ended(self, entry: Ended) -> None:
        """An item has ended."""
        ...

    def lost(self, entry: GivenBack) -> None:
        """An item's player is gone; the item is played again."""
        ...

    def found(self, finding: Finding) -> None:
        """Something was found that was not known."""
        ...


class Campaign:
    """A session. Only its own thread writes to the campaign's folder."""

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        pool: WorkerPool,
        journal: Journal,
        past: CampaignHistory,
        tell: Tell,
    ) -> None:
        """``past``: what the journal said so far; it grows with the journal."""
        self._folder, self._settings = folder, settings
        self._pool, self._journal, self._past, self._tell = pool, journal, past, tell
        self._findings = Findings(folder / "findings")
        self._reached = reached.load(folder)
        self._plan = Plan(settings.cases(), settings.seed, past)
        self._convicted: set[str] = set()
        """Cases of which something was found."""
        self._failed = 0
        """Items in a row that the harness could not play."""
        self._before = past.spent
        self._began = time.monotonic()
        self._end = self._began

    def play(self, pid: int, seconds: float, stopped: Callable[[], str]) -> str:
        """Play for so many seconds; why it ended.

        Args:
            stopped: why to stop at once; empty: go on.

        Raises:
            CannotWork: one item after another failed through the harness.
        """
        self._began = time.monotonic()
        self._end = self._began + seconds - min(5.0, seconds / 10)  # for the giving back
        self._add(Session(self._before, pid, seconds))
        self._take_up()
        why = ""
        try:
            while not (why := stopped()):
                if self._left() <= 0:
                    why = "the budget is spent"
                    break
                if not self._fill():
                    why = "nothing more fits into the budget"
                    break
                self._tell.going(self._past, self._left())
                ended = self._pool.ended(min(_LOOKS_EVERY, max(0.0, self._left())))
                if ended is not None:
                    self._settle(ended)
        finally:
            self._pool.close()
            self._give_back("interrupted" if stopped() else "budget")
            self._add(Closed(self._now(), why))
        return why

    def _take_up(self) -> None:
        """Take up what sessions before this one have left half-way."""
        for key, times in list(self._past.losses.items()):
            if times >= _TRIES and key not in self._past.ended:
                self._give_up(key, "the campaign ended over it")
        for finding in self._findings.all():
            self._convicted.add(finding.case.id)
            self._have_shrunk(finding.signature, finding.case.id)

    def _fill(self) -> bool:
        """Begin what there is room for; whether anything is being played."""
        while not self._left() <= 0:
            item = self._plan.next(self._fits)
            if item is None or not self._pool.room(item):
                break
            order = self._order(item)
            self._add(Begun(self._now(), item))  # the intent before the act
            self._plan.begin(item)
            self._pool.begin(order)
        return bool(self._past.open)

    def _fits(self, item: Item) -> bool:
        least = _LEAST if item.shrinks else self._past.expected(item)
        return least <= self._left()

    def _order(self, item: Item) -> WorkOrder:
        within = max(_HANGS[item.full], 20 * self._past.expected(item))
        order = WorkOrder(item, self._settings.target, self._settings.device, within)
        if item.shrinks:
            order.scenario = self._findings.scenario(item.shrinks)
            order.convicted = self._findings.convicted(item.shrinks)
            order.seconds = min(_SHRINKING, self._left() / 4)
            return order
        order.reach = self._reached.of(item.case)
        known = self._examples(item)
        if self._pool.local:
            order.examples = str(known.resolve())
        else:
            order.sent = examples.pack(known)
        return order

    def _examples(self, item: Item) -> Path:
        """Return the folder of the case's examples.

        An item of a case that was convicted gets new ones in each round, so as not to find the same
        for ever.
        """
        name = item.key if item.case in self._convicted else item.case
        return examples.folder_of(self._folder / "examples", name)

    def _settle(self, ended: WorkResult | Lost) -> None:
        item = self._past.open[ended.key]
        if isinstance(ended, Lost):
            back = GivenBack(self._now(), ended.key, "lost", ended.cause)
            self._add(back)
            self._plan.leave(item, again=True)
            self._tell.lost(back)
            if self._past.losses[ended.key] >= _TRIES:
                self._give_up(ended.key, ended.cause)
            return
        new = self._keep(item, ended)
        names = [name for name, _case in new]
        entry = Ended(
            self._now(),
            ended.key,
            ended.word,
            ended.seconds,
            ended.plays,
            ended.swept,
            ended.cause,
            names,
        )
        self._add(entry)
        self._plan.leave(item, again=False)
        self._failed = self._failed + 1 if entry.word == "infrastructure" else 0
        if self._failed >= _HOPELESS:
            raise CannotWork(f"{self._failed} items in a row could not be played: {entry.cause}")
        for name, case in new:
            self._have_shrunk(name, case)
        self._tell.ended(entry)

    def _keep(self, item: Item, played: WorkResult) -> list[tuple[str, str]]:
        """Store what was found, on disk before it counts; return signatures with their cases."""
        if played.reached and self._reached.add(item.key, item.case, played.reached):
            reached.save(self._folder, self._reached)
            write_never_reached(self._folder, self._reached)
        if played.examples:
            examples.unpack(played.examples, self._examples(item))
        if item.shrinks and played.word != "infrastructure":
            self._findings.shrunk(item.shrinks, played)
        kept: list[tuple[str, str]] = []
        for found in played.found:
            assert played.target is not None
            name, first = self._findings.keep(found, item, played.target, self._settings.device)
            kept.append((name, found.outcome.id))
            self._convicted.add(found.outcome.id)
            if first:
                self._tell.found(self._findings.one(name))
        return kept

    def _have_shrunk(self, name: str, case: str) -> None:
        if self._findings.scenario(name):
            self._plan.shrink(Item(case, shrinks=name))

    def _give_up(self, key: str, cause: str) -> None:
        cause = f"given up after {_TRIES} tries: {cause}"
        entry = Ended(self._now(), key, "infrastructure", cause=cause)
        self._add(entry)
        self._tell.ended(entry)

    def _give_back(self, why: Why) -> None:
        for key, item in list(self._past.open.items()):
            self._add(GivenBack(self._now(), key, why))
            self._plan.leave(item, again=True)

    def _add(self, entry: Session | Begun | Ended | GivenBack | Closed) -> None:
        self._journal.add(entry)
        self._past.take(entry)

    def _now(self) -> float:
        return round(self._before + time.monotonic() - self._began, 3)

    def _left(self) -> float:
        return self._end - time.monotonic()
