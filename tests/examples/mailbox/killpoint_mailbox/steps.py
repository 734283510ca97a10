"""What is put on trial, and the steps of its scenarios."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from killpoint.systems.step import Seconds, Step, Times


class MailboxShape(
    msgspec.Struct,
    tag_field="system",
    tag="mailbox",
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """A mailbox to be opened, and how many posters there are."""

    posters: Annotated[int, msgspec.Meta(ge=1, le=16)] = 2

    system: ClassVar[str] = "mailbox"

    def roles(self) -> list[str]:
        """Return the owner, then the posters."""
        return ["owner", *self.connecting()]

    def collective(self) -> dict[str, list[str]]:
        """Return all posters under one name."""
        return {"posters": self.connecting()}

    def started_by_target(self) -> list[str]:
        """Return no role: the runner starts all of them."""
        return []

    def connecting(self) -> list[str]:
        """Return the posters."""
        return [f"poster-{number}" for number in range(self.posters)]


class MailboxOpen(Step, tag="mailbox-open"):
    """The owner opens the mailbox; posters are given what they need to find it."""


class MailboxConnect(Step, tag="mailbox-connect"):
    """Posters connect."""

    roles: tuple[str, ...] = ("posters",)


class LetterPost(Step, tag="letter-post"):
    """Posters post numbered letters."""

    count: Times = 1
    roles: tuple[str, ...] = ("posters",)


class LetterTake(Step, tag="letter-take"):
    """The owner takes letters until it has so many, or a call fails."""

    count: Times = 1
    timeout: Seconds = 5.0
    roles: tuple[str, ...] = ("owner",)


class MailboxClose(Step, tag="mailbox-close"):
    """Roles close their ends."""

    roles: tuple[str, ...] = ("all",)


SHAPE = MailboxShape
STEPS = (MailboxOpen, MailboxConnect, LetterPost, LetterTake, MailboxClose)
