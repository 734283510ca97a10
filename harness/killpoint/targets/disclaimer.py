"""Promises that a target's own documents disclaim: cited beside a violation of them.

A violation that a disclaimer covers is of class *beyond contract*: true, and outside what the
target's authors set out to keep.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Disclaimer(msgspec.Struct, frozen=True):
    """One promise that a target does not make."""

    covers: tuple[str, ...]
    """Ids of invariants or of cases."""
    where: str
    """Document or source file, as its readers find it."""
    says: str = ""
    """Words of the disclaimer, in our own terms; empty: ``where`` has them as well."""
    kinds: tuple[str, ...] = ()
    """Kinds of violation that it covers; empty: any."""

    def words(self) -> str:
        """Return the citation in one line."""
        return f"{self.where}: {self.says}" if self.says else self.where


def disclaimed(disclaimers: Sequence[Disclaimer], case: str, kind: str | None = None) -> str:
    """Return the citation for a violation of this case; empty if it is within the contract."""
    names = {case, case.split("/")[0]}
    found = (each for each in disclaimers if names & {*each.covers})
    return next((each.words() for each in found if not each.kinds or kind in each.kinds), "")
