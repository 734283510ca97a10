"""Parties that are asked each thing once: states and messages become small numbers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from killpoint.targets.waves import ProtocolParty, Sent

_T = TypeVar("_T", bound=Hashable)


class Numbers(Generic[_T]):
    """Numbers for things, by equality."""

    def __init__(self) -> None:
        self.things: list[_T] = []
        self._known: dict[_T, int] = {}

    def of(self, thing: _T) -> int:
        """The number of a thing."""
        number = self._known.get(thing)
        if number is None:
            number = self._known[thing] = len(self.things)
            self.things.append(thing)
        return number


class InFlight:
    """Messages on their way from one party to another, as a number; 0 is none."""

    def __init__(self) -> None:
        self.contents = Numbers[tuple[int, ...]]()
        self.contents.of(())
        self._longer: dict[tuple[int, int], int] = {}

    def push(self, link: int, message: int) -> int:
        """The link with a further message behind the others."""
        key = link, message
        found = self._longer.get(key)
        if found is None:
            found = self.contents.of((*self.contents.things[link], message))
            self._longer[key] = found
        return found

    def pop(self, link: int) -> tuple[int, int]:
        """The first message, and the link without it."""
        first, *rest = self.contents.things[link]
        return first, self.contents.of(tuple(rest))


Outcome = tuple[int, tuple[tuple[str, int], ...], Any]
"""The state after, (audience, message) for each thing sent, and what was returned beside."""


class MemoizedParty:
    """One party, which is called only where its answer is not known yet."""

    def __init__(self, party: ProtocolParty, messages: Numbers[Hashable]) -> None:
        self.party = party
        self._messages = messages
        self._states = Numbers[Hashable]()
        self._answers: dict[tuple[int, str, Hashable], Outcome] = {}
        self.waves: list[int] = []
        self.runs: list[bool] = []
        self.unfinished: list[int] = []
        self.members: list[tuple[int, ...]] = []
        self.first = self._number()

    def ask(self, state: int, what: str, with_: Hashable, call: Callable[[], Any]) -> Outcome:
        """Return the outcome of a call in a state. ``what`` and ``with_`` tell calls apart."""
        key = state, what, with_
        found = self._answers.get(key)
        if found is None:
            self.party.restore(self._states.things[state])
            said = call()
            beside, sent = (said, ()) if isinstance(said, bool) else (None, said)
            found = self._number(), self._sent(sent), beside
            self._answers[key] = found
        return found

    def _sent(self, sent: Sent) -> tuple[tuple[str, int], ...]:
        return tuple((audience, self._messages.of(message)) for audience, message in sent)

    def _number(self) -> int:
        number = self._states.of(self.party.save())
        if number == len(self.waves):
            self.waves.append(self.party.wave)
            self.runs.append(self.party.running)
            self.unfinished.append(getattr(self.party, "unfinished", 0))
            self.members.append(tuple(getattr(self.party, "members", ())))
        return number
