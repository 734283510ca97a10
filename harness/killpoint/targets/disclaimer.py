"""What a target's own documents say that it does not promise: cited beside a violation of it.

A violation that a disclaimer covers is of class *beyond contract*: true, and not what the target's
authors set out to keep.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Disclaimer(msgspec.Struct, frozen=True):
    """One thing that a target does not promise."""

    covers: tuple[str, ...]
    """Ids of invariants or of cases."""
    where: str
    """The document or source file, as its readers find it."""
    says: str = ""
    """What it says there, in our own words; empty: ``where`` has that as well."""
    kinds: tuple[str, ...] = ()
    """Of violations that it covers; empty: of any."""

    def words(self) -> str:
        """The citation in one line."""
        return f"{self.where}: {self.says}" if self.says else self.where


def disclaimed(disclaimers: Sequence[Disclaimer], case: str, kind: str | None = None) -> str:
    """What is cited for a violation of this case; empty if it is within the contract."""
    names = {case, case.split("/")[0]}
    found = (each for each in disclaimers if names & {*each.covers})
    return next((each.words() for each in found if not each.kinds or kind in each.kinds), "")
