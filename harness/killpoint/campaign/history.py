"""State of a campaign by its journal: items that are done, their times, and those half-way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from killpoint.campaign.item import Item
from killpoint.campaign.journal import Begun, Ended, Entry, GivenBack, Session
from killpoint.durations import Expected

_FIRST_GUESS = 5.0
"""Seconds for a case that was never measured."""
_LEAST = 1.0
"""Seconds that count for an item of less: what is over at once is not to have every turn."""
_MORE = {(True, "line"): 10.0, (False, "opcode"): 3.0, (True, "opcode"): 60.0}
"""Factor over the default duration that is assumed for a case which was not played yet."""


class CampaignHistory:
    """A campaign as far as it has come; it grows with each entry."""

    def __init__(
        self, entries: Iterable[Entry] = (), usual: Mapping[str, Expected] | None = None
    ) -> None:
        """Take the entries of a journal, in their order.

        ``usual``: what cases take as a rule, until they were played here.
        """
        self._usual = usual or {}
        self.items: dict[str, Item] = {}
        """Every item that was begun, by key."""
        self.ended: dict[str, Ended] = {}
        self.open: dict[str, Item] = {}
        """Begun, and neither ended nor given back."""
        self.losses: dict[str, int] = {}
        """Number of times that an item has taken its player along: a worker, or the whole
        campaign."""
        self.spent = 0.0
        """Seconds that the campaign has been played."""
        self.shares: dict[str, float] = {}
        """Seconds that went to each invariant."""
        self.swept: set[str] = set()
        """Cases that have sweeps whose depth can be chosen."""
        self.budget = 0.0
        """Seconds, over all sessions."""
        self.unasked: set[str] = set()
        """Cases that are unsupported: they are not played in further rounds."""
        self._took: dict[tuple[str, tuple[bool, str]], float] = {}
        for entry in entries:
            self.take(entry)

    def take(self, entry: Entry) -> None:
        """Let an entry count."""
        self.spent = max(self.spent, entry.t)
        if isinstance(entry, Session):
            self.budget = entry.t + entry.seconds
            for key in self.open:  # the session before this one ended without a word
                self.losses[key] = self.losses.get(key, 0) + 1
            self.open.clear()
        elif isinstance(entry, Begun):
            self.items[entry.item.key] = self.open[entry.item.key] = entry.item
        elif isinstance(entry, Ended):
            self.open.pop(entry.key, None)
            self._end(entry)
        elif isinstance(entry, GivenBack):
            self.open.pop(entry.key, None)
            if entry.why == "lost":
                self.losses[entry.key] = self.losses.get(entry.key, 0) + 1

    def _end(self, entry: Ended) -> None:
        self.ended[entry.key] = entry
        item = self.items.get(entry.key)
        if item is None:
            return
        if entry.swept:
            self.swept.add(item.case)
        if entry.word == "unsupported":
            self.unasked.add(item.case)
        share = max(entry.seconds, _LEAST)
        self.shares[item.invariant] = self.shares.get(item.invariant, 0.0) + share
        if not item.shrinks:
            at = item.case, item.strength
            self._took[at] = max(self._took.get(at, 0.0), entry.seconds)

    def expected(self, item: Item) -> float:
        """Seconds that an item will likely take: what it took, or a guess from what it took."""
        seen = self._took.get((item.case, item.strength))
        if seen is not None:
            return seen * 1.2
        known = self._usual.get(item.case)
        usual = known.seconds if known is not None else _FIRST_GUESS
        usual = self._took.get((item.case, (False, "line")), usual)
        return usual * _MORE.get(item.strength, 1.0)
