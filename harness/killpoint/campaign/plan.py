"""Choice of the next item: every case once, then by invariants' shares of time, ever deeper."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from killpoint.campaign.history import CampaignHistory
from killpoint.campaign.item import Item, of_round
from killpoint.case import Case

Fits = Callable[[Item], bool]
_AHEAD = 4
"""Rounds in which an invariant looks for an item that fits into what time is left."""


class Plan:
    """Chooses items; the past has what is done, and the caller reports what is under way."""

    def __init__(self, cases: Sequence[Case], seed: int, past: CampaignHistory) -> None:
        """``cases``: those of the campaign, in the order of the first round."""
        self._past = past
        self._seed = seed
        self._cases: dict[str, list[str]] = {}
        for case in cases:
            self._cases.setdefault(case.invariant, []).append(case.id)
        self._first = dict.fromkeys(self._cases, 0)
        self._shrinks: list[Item] = []
        self._running: dict[str, Item] = {}

    def shrink(self, item: Item) -> None:
        """Have a finding shrunk before anything else is begun; once only."""
        known = item.key in self._past.ended or item.key in self._running
        if not known and item not in self._shrinks:
            self._shrinks.append(item)

    def next(self, fits: Fits) -> Item | None:
        """The item whose turn it is, of those that fit into what time is left.

        It stays the next one until :meth:`begin`.
        """
        for item in self._shrinks:
            if item.key not in self._past.ended and fits(item):
                return item
        turns = [item for id in self._cases if (item := self._of(id, fits)) is not None]
        return min(turns, key=self._turn, default=None)

    def begin(self, item: Item) -> None:
        """Note that the item is being played from now on."""
        if item in self._shrinks:
            self._shrinks.remove(item)
        self._running[item.key] = item

    def leave(self, item: Item, *, again: bool) -> None:
        """Note that the item is no longer being played; ``again``: it was given back."""
        self._running.pop(item.key, None)
        if again and item.shrinks:
            self._shrinks.insert(0, item)

    def _turn(self, item: Item) -> tuple[bool, float]:
        """Return an item's sort key: the first round, then the invariant with the least time."""
        running = [each for each in self._running.values() if each.invariant == item.invariant]
        ahead = sum(self._past.expected(each) for each in running)
        return item.round > 0, self._past.shares.get(item.invariant, 0.0) + ahead

    def _of(self, invariant: str, fits: Fits) -> Item | None:
        """The first item of an invariant that is neither done nor under way, and fits."""
        cases, first = self._cases[invariant], self._first[invariant]
        while self._key(cases, first) in self._past.ended:
            first += 1
        self._first[invariant] = first
        for index in range(first, first + _AHEAD * len(cases)):
            key = self._key(cases, index)
            if key in self._past.ended or key in self._running:
                continue
            if index >= len(cases) and cases[index % len(cases)] in self._past.unasked:
                continue
            item = self._item(cases, index)
            if fits(item):
                return item
        return None

    @staticmethod
    def _key(cases: Sequence[str], index: int) -> str:
        number, place = divmod(index, len(cases))
        return Item(cases[place], number).key

    def _item(self, cases: Sequence[str], index: int) -> Item:
        number, place = divmod(index, len(cases))
        begun = self._past.items.get(Item(cases[place], number).key)
        if begun is not None:  # it was given back: the same once more
            return begun
        return of_round(cases[place], number, self._seed, swept=cases[place] in self._past.swept)
