"""The steps of a mailbox, as one role executes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from killpoint.runner.driver import Driver
from killpoint.runner.protocol import Order
from killpoint.runner.role import Role
from killpoint.scenario import Fault
from killpoint.targets.protocol import UnsupportedByTarget
from killpoint_mailbox import steps
from killpoint_mailbox.protocol import HasMailbox


class MailboxDriver(Driver):
    """The role's ``end`` is its end of the mailbox."""

    def __init__(self, role: Role, _folder: Path) -> None:
        self._role = role
        self._posted = 0
        self._loses = False

    def table(self) -> dict[type, Callable[[Order, Any], str]]:
        """See the base class."""
        return {
            steps.MailboxOpen: self._open,
            steps.MailboxConnect: self._connect,
            steps.LetterPost: self._post,
            steps.LetterTake: self._take,
            steps.MailboxClose: self._close,
        }

    def fault(self, step: Fault) -> None:
        """See the base class: the next letter is counted, and not posted."""
        self._loses = step.fault == "lose-letter"

    def _target(self) -> HasMailbox:
        if not isinstance(self._role.target, HasMailbox):
            raise UnsupportedByTarget("no mailbox")
        return self._role.target

    def _open(self, _order: Order, _step: steps.MailboxOpen) -> str:
        self._role.end = self._target().mailbox_open()
        self._role.handle = self._target().mailbox_handle(self._role.end)
        return "ok"

    def _connect(self, order: Order, _step: steps.MailboxConnect) -> str:
        self._role.end = self._target().mailbox_connect(order.data)
        return "ok"

    def _post(self, _order: Order, step: steps.LetterPost) -> str:
        target = self._target()
        for _ in range(step.count):
            letter = f"{self._role.name} {self._posted}".encode()
            self._posted += 1
            self._role.log.write("posts", letter=letter.decode())
            if self._loses:
                self._loses = False
                continue
            outcome, error, _ = self._role.timed(
                "post", lambda letter=letter: target.mailbox_post(self._role.end, letter)
            )
            self._role.log.write("posted", letter=letter.decode(), outcome=outcome, error=error)
            if outcome != "ok":
                return outcome
        return "ok"

    def _take(self, _order: Order, step: steps.LetterTake) -> str:
        target, got = self._target(), list[bytes]()

        def take() -> None:
            got.append(target.mailbox_take(self._role.end, step.timeout))

        for _ in range(step.count):
            self._role.log.write("takes", timeout=step.timeout)
            got.clear()
            outcome, error, seconds = self._role.timed("take", take)
            letter = got[0].decode() if got else ""
            self._role.log.write("took", letter=letter, outcome=outcome, error=error, s=seconds)
            if outcome != "ok":
                return outcome
        return "ok"

    def _close(self, _order: Order, _step: steps.MailboxClose) -> str:
        end, self._role.end = self._role.end, None
        if end is not None:
            self._target().mailbox_close(end)
        return "ok"


make = MailboxDriver
