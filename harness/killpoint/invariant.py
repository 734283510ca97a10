"""An invariant: one clause of the specification, and what it takes to judge it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import msgspec

Level = Literal["MUST", "SHOULD"]


class Invariant(msgspec.Struct, frozen=True):
    """One clause of the specification."""

    id: str
    clause: str
    needs: tuple[str, ...]
    """Capabilities without which the target is `unsupported`, whatever its cases said."""
    minimum: dict[str, int]
    """Least evidence for `holds`: units are `cases`, `runs`, and what cases count themselves."""
    level: Level = "MUST"
    instead: str = ""
    """A capability that will do in place of all of ``needs``: then it is judged in another way."""
    then: dict[str, int] = {}
    """Least evidence where it is judged in that way; empty: as ``minimum`` has it."""
    bound: str = ""
    """Reason for the clause's bound, where it is ours and no caller's: then being later than the
    bound breaks a SHOULD, and never coming breaks the clause's own level."""

    def lacking(self, capabilities: Collection[str]) -> list[str]:
        """The capabilities that it needs and are not there."""
        if self.instead and self.instead in capabilities:
            return []
        return [word for word in self.needs if word not in capabilities]

    def asked_of(self, capabilities: Collection[str]) -> Invariant:
        """Return the invariant as it is judged of a target that has these."""
        if self.then and self.instead in capabilities:
            return msgspec.structs.replace(self, minimum=self.then)
        return self
