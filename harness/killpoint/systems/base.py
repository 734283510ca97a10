"""What a system is: one kind of thing that is put on trial, asked in place of a branch on its name.

So far whole servers are one. What a scenario of any other kind needs is still asked where it is
needed; each is to move here with its own folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from killpoint.ledger import Ledger
from killpoint.scenario import Scenario


class Played(msgspec.Struct):
    """What a play leaves to be judged, beside the logs in its folder."""

    ledger: Ledger
    stalled: str
    """Why it could not be played to its end, empty if it was."""
    unreached: list[str]
    """What was to be done, and was not."""


class System(Protocol):
    """One kind of thing that is put on trial. Of such plays there is one at a time on a machine."""

    name: str

    def owns(self, scenario: Scenario) -> bool:
        """Whether a scenario is one of its own."""
        ...

    def key(self, scenario: Scenario) -> bytes:
        """The same for scenarios that are one play, judged by different invariants."""
        ...

    def play(self, spec: str, scenario: Scenario, folder: Path) -> Played:
        """Play it on the target of a resolved spec; logs go into ``folder``, files into its ``t``.

        Everything that it started has ended when it returns.
        """
        ...
