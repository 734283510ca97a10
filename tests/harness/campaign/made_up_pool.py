"""A session of a campaign whose players answer at once, as a test has them answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from killpoint.campaign.history import CampaignHistory
from killpoint.campaign.item import Item
from killpoint.campaign.journal import Journal, read
from killpoint.campaign.progress import ProgressPrinter
from killpoint.campaign.run import Campaign
from killpoint.campaign.settings import Settings
from killpoint.campaign.work_order import Lost, WorkOrder, WorkResult

CASES = ["R1/two-readers", "Q6/writer-dies-after-overflow-marker"]
SETTINGS = Settings(only=CASES)
Answer = Callable[[WorkOrder], WorkResult | Lost]


class MadeUpPool:
    """Two players that answer at once, in the order that they were asked."""

    local = True

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._asked: list[WorkOrder] = []
        self.began: list[Item] = []
        self.orders: list[WorkOrder] = []

    def room(self, item: Item) -> bool:
        return len(self._asked) < 2

    def begin(self, order: WorkOrder) -> None:
        self._asked.append(order)
        self.began.append(order.item)
        self.orders.append(order)

    def ended(self, within: float) -> WorkResult | Lost | None:
        return self._answer(self._asked.pop(0))

    def close(self) -> None:
        self._asked.clear()


def session(folder: Path, answer: Answer, items: int) -> MadeUpPool:
    """Play until so many items have been begun, then interrupt."""
    pool, path = MadeUpPool(answer), folder / "journal.jsonl"
    past = CampaignHistory(read(path) if path.exists() else [])
    with Journal(path) as journal:
        tell = ProgressPrinter(Console(quiet=True), None)
        campaign = Campaign(folder, SETTINGS, pool, journal, past, tell)
        campaign.play(1, 600.0, lambda: "stopped" if len(pool.began) >= items else "")
    return pool
