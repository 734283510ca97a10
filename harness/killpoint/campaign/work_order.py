"""Messages between a campaign and its players, which may cross machines."""

from __future__ import annotations

import msgspec

from killpoint.campaign.item import Item
from killpoint.points.target_lines import Outline
from killpoint.search.reach import CaseReach
from killpoint.targets.shapes import Device
from killpoint.verdict import CaseOutcome


class WorkOrder(msgspec.Struct):
    """Play this item."""

    item: Item
    target: str
    device: Device
    within: float
    """Seconds after which its player is ended: it hangs."""
    examples: str = ""
    """Folder of the case's examples, where the player sees the campaign's folder."""
    sent: dict[str, bytes] | None = None
    """The examples themselves, where it does not."""
    scenario: str = ""
    """Scenario of a finding that is to be shrunk, as TOML."""
    convicted: CaseOutcome | None = None
    """Outcome of the case that the finding violated."""
    seconds: float = 0.0
    """Seconds for the shrinking."""
    reach: CaseReach | None = None
    """What the case has reached before, if its drawn plays are recorded."""


class Found(msgspec.Struct):
    """A violation, with all that is kept of it."""

    outcome: CaseOutcome
    scenario: str
    """Replay file of the violation, as TOML."""
    record: dict[str, bytes]
    """The files of its play's record, by name."""


class ItemReach(msgspec.Struct):
    """What the recorded plays of an item have reached."""

    case: CaseReach
    outlines: dict[str, Outline]
    """Files of the target in whose folders a line was reached."""
    others: list[str] = []
    """Files of the target that are not Python's."""


class Target(msgspec.Struct):
    """Target that the item was played on, by its own name."""

    name: str
    version: str
    notes: list[str]


class WorkResult(msgspec.Struct):
    """Result of an item."""

    key: str
    word: str
    """Outcome of the case; ``reproduced``, ``held``, ``not-reached`` of a finding;
    ``infrastructure`` if the harness failed."""
    cause: str = ""
    seconds: float = 0.0
    plays: int = 0
    swept: bool = False
    found: list[Found] = []
    shrunk: str = ""
    """The smallest scenario found, as TOML."""
    shrinkage: str = ""
    examples: dict[str, bytes] = {}
    """All examples that there are now, if some were sent."""
    target: Target | None = None
    reached: ItemReach | None = None
    """What it has reached, if plays were recorded."""


class Lost(msgspec.Struct):
    """The player is gone through no fault of the item: it is played again."""

    key: str
    cause: str


def failed(item: Item, cause: str, seconds: float = 0.0) -> WorkResult:
    """The harness could not play it: that says nothing of the target."""
    return WorkResult(item.key, "infrastructure", cause, seconds)
