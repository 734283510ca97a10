"""A coordinator whose engines leave a start unanswered: the parties."""

from __future__ import annotations

from typing import Annotated

import msgspec


class Wakes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Two requests, the first of which arrives while no engine obeys a start."""

    engines: Annotated[int, msgspec.Meta(ge=2, le=64)] = 2
    engine: Annotated[int, msgspec.Meta(ge=0, le=63)] = 1
    """Rank of the engine that the requests go to."""
    late: bool = False
    """True if the front end has no news of the coordinator yet, and wakes the engines each time."""
