"""How a scenario of a mailbox is opened, connected and ended."""

from __future__ import annotations

from killpoint.scenario import AnyStep, Scenario
from killpoint.systems.base import System
from killpoint_mailbox.steps import MailboxClose, MailboxConnect, MailboxOpen


class MailboxSystem(System):
    """The roles are the owner and its posters."""

    name = "mailbox"
    opens = (MailboxOpen,)
    attaches = (MailboxConnect,)
    kept_whole = "a mailbox's story is short as it is"

    def ends(self, roles: tuple[str, ...]) -> tuple[AnyStep, ...]:
        """See the base class."""
        return (MailboxClose(roles),)

    def leaves_within(self, scenario: Scenario) -> float:
        """See the base class."""
        return 5.0


SYSTEM = MailboxSystem()
