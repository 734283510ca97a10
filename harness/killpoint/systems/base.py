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
    provisional: bool = False
    """Whether the target was started in a way that is not its users': what the play shows is told
    once an ordinary one has shown it too."""


class Player(Protocol):
    """What plays scenarios of one system on one target; whatever it keeps for that, it ends."""

    def declines(self, scenario: Scenario) -> str:
        """Why the target cannot be in a scenario, or nothing it does could tell of its judges.

        Empty: it can, and is played.
        """
        ...

    def play(self, scenario: Scenario, folder: Path, *, ordinary: bool) -> Played:
        """Play it; logs go into ``folder``, the target's files into its ``t``.

        Everything that was started for the play has ended when it returns.

        Args:
            ordinary: whether the target is to be started as its users start it.
        """
        ...

    def abandon(self) -> None:
        """End the play that is under way in another thread, and begin no other one.

        What is abandoned raises ``asyncio.CancelledError`` where it was begun.
        """
        ...

    def close(self) -> None:
        """End what was kept between plays."""
        ...


class System(Protocol):
    """One kind of thing that is put on trial. Of such plays there is one at a time on a machine."""

    name: str

    def owns(self, scenario: Scenario) -> bool:
        """Whether a scenario is one of its own."""
        ...

    def key(self, scenario: Scenario) -> bytes:
        """The same for scenarios that are one play, judged by different invariants."""
        ...

    def as_users(self, scenario: Scenario) -> bool:
        """Whether a scenario starts the target as its users do, however it is played.

        Such a play has the machine to itself from the first: it needs no other one to confirm it.
        """
        ...

    def player(self, spec: str, root: Path) -> Player:
        """What plays its scenarios on the target of a resolved spec; ``root``: a folder for it."""
        ...
