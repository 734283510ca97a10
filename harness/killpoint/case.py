"""A case: one named way to test one invariant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from killpoint.search.case_run import CaseRun

Run = Callable[[CaseRun], None]
Tier = Literal["process", "simulated", "model"]
SIMULATED = frozenset({"sim_memory", "sim_sockets"})
"""Capabilities that only simulated worlds ask for."""


class Case(msgspec.Struct, frozen=True):
    """A named test of an invariant: what it does to the target, and what it needs of it."""

    id: str
    summary: str
    run: Run
    needs: frozenset[str] = frozenset({"queue"})
    """Capabilities. ``deadlines``: the story needs a call that expires; a timeout that only bounds
    a healthy call is left out for a target that has none."""
    full: bool = False
    """True if the case is played only under ``--full``, and when it is named."""
    play: str = ""
    """Name of the play that several cases share: it is played once, and each of them judges it."""

    @property
    def invariant(self) -> str:
        """The id of the invariant that it tests."""
        return self.id.split("/")[0]

    @property
    def tier(self) -> Tier:
        """Tier of the case: real processes, a simulated world, or pure state machines."""
        if "waves" in self.needs:
            return "model"
        return "simulated" if self.needs & SIMULATED else "process"
