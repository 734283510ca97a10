"""The base class of steps, and the types of their fields."""

from __future__ import annotations

from typing import Annotated

import msgspec

Pace = Annotated[float, msgspec.Meta(ge=0, le=1_000_000)]
"""Messages a second; 0: as fast as they go."""
Times = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 33)]
Seconds = Annotated[float, msgspec.Meta(le=3600)]


class Step(msgspec.Struct, tag_field="do", forbid_unknown_fields=True, omit_defaults=True):
    """One thing the runner does; steps that name roles post an order and go on."""
