"""Facts of a history of many peers: who was there, who heard what, who was in which wave."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.scenario import Scenario
from killpoint.systems.coordinator.model import Told
from killpoint.systems.coordinator.record import (
    NEVER,
    Publication,
    Stay,
    changes,
    ms,
    publications,
    stays,
    times,
)
from killpoint.verdict import Violation

NOTICED = 5.0
"""Seconds within which a loss or a return is noticed (C6)."""
_LEAST = 0.25
"""Seconds that a publication may take in any case (C7)."""


class Scaled(msgspec.Struct):
    """Another number of ranks that a front end asked for."""

    event: Event
    size: int
    known: int = NEVER
    """Time at which some front end had heard of it, ns."""


class WaveMembership(msgspec.Struct):
    """Time for which an engine was in a wave."""

    role: str
    rank: int
    wave: int
    members: tuple[int, ...]
    began: Event
    until: int = NEVER
    ended: Event | None = None
    """The end that all members agreed upon, or of which a broken all-reduce told."""


class Link(msgspec.Struct):
    """Link of a front end, and what came down it in order."""

    role: str
    asked: int
    linked: Event
    heard: list[Publication]


class Facts(msgspec.Struct):
    """A play, as the rules of H5 read it."""

    scenario: Scenario
    history: History
    prompt: int
    """ns within which a change is published (C7)."""
    idle: int
    """ns within which the next publication comes that is due anyway, and is heard."""
    stays: list[Stay]
    links: list[Link]
    told: dict[int, list[Told]]
    """Counts that each rank told, in order."""
    scaled: list[Scaled]
    memberships: list[WaveMembership]

    @classmethod
    def of(cls, scenario: Scenario, history: History) -> Facts:
        """Read them off a history.

        Raises:
            Inconclusive: no coordinator was started.
        """
        interval, idle = times(history)
        prompt = ms(max(2 * interval, _LEAST))
        found = stays(history)
        links = _links(scenario, history, found)
        heard = sorted((p for link in links for p in link.heard), key=lambda p: p.event.t)
        return cls(
            scenario,
            history,
            prompt,
            ms(idle) + prompt,
            found,
            links,
            _told(history, heard),
            _scaled(history, heard),
            _memberships(history),
        )

    @property
    def first_size(self) -> int:
        """Number of ranks that the coordinator was started for."""
        return self.scenario.coordinator.engines if self.scenario.coordinator else 0

    def of_rank(self, rank: int) -> list[Stay]:
        """Return the stays of a rank's links."""
        return [stay for stay in self.stays if stay.rank == rank]

    def due(self, since: int, within: int) -> int:
        """Return the latest time for what takes so long, in ns, with the machine's lateness."""
        return since + within + self.history.allowance(since, since + within)

    def in_range(self, rank: int, since: int, until: int) -> bool:
        """Return whether a rank was in range for all of a time, whatever was taken when."""
        size = self.first_size
        for each in self.scaled:
            if each.known < since:
                size = each.size
            elif each.event.t <= until:
                size = min(size, each.size)
        return rank < size

    def forgotten(self, rank: int) -> list[tuple[int, int]]:
        """Return the times in which a rank's counts may be forgotten, or not be taken."""
        found: list[tuple[int, int]] = []
        own = self.of_rank(rank)
        for stay in own:
            held = any(other is not stay and other.covers(stay.until, stay.until) for other in own)
            if stay.until < NEVER and not held:
                found.append((stay.until, self._missed(rank, stay)))
        for n, each in enumerate(self.scaled):
            if each.size <= rank:
                later = [one.known for one in self.scaled[n + 1 :] if one.size > rank]
                found.append((each.event.t, min(later, default=NEVER)))
        if self.first_size <= rank:
            later = [one.known for one in self.scaled if one.size > rank]
            found.append((0, min(later, default=NEVER)))
        return found

    def _missed(self, rank: int, stay: Stay) -> int:
        """Return the time by which the end of a rank's link had been seen, ns."""
        told = [
            p.event.t
            for link in self.links
            for p in link.heard
            if p.event.t > stay.until and p.lacks(rank)
        ]
        bound = NEVER if stay.ended == NEVER else self.due(stay.ended, ms(NOTICED))
        return min(*told, bound) if told else bound


Rule = Callable[[Facts], Iterator[Violation]]
"""Rule that yields what it cannot explain."""


def _links(scenario: Scenario, history: History, found: list[Stay]) -> list[Link]:
    links: list[Link] = []
    for front in scenario.front_ends():
        begun = list(history.of("linked", role=front))
        heard = publications(history, front)
        for n, event in enumerate(begun):
            end = begun[n + 1].t if n + 1 < len(begun) else NEVER
            asked = max(s.asked for s in found if s.role == front and s.asked <= event.t)
            own = [p for p in heard if event.t <= p.event.t < end]
            links.append(Link(front, asked, event, own))
    return links


def _told(history: History, heard: list[Publication]) -> dict[int, list[Told]]:
    """Counts that each rank told, and when some front end had heard of them."""
    told: dict[int, list[Told]] = {}
    for change in sorted(changes(history), key=lambda c: c.since):
        one = Told(change.since, change.event.role, change.counts)
        told.setdefault(change.rank, []).append(one)
    for rank, own in told.items():
        for publication in heard:
            counts, t = publication.of(rank), publication.event.t
            same = [n for n, e in enumerate(own) if e.counts == counts and e.since <= t]
            for each in own[: same[0] + 1] if same else []:
                each.known = min(each.known, t)
    return told


def _scaled(history: History, heard: list[Publication]) -> list[Scaled]:
    found = [Scaled(event, event.number("engines")) for event in history.of("scaled")]
    for n, each in enumerate(found):
        later = {one.size for one in found[n:]}
        known = [
            publication.event.t
            for publication in heard
            if publication.counts is not None and len(publication.counts) in later
        ]
        each.known = min((t for t in known if t >= each.event.t), default=NEVER)
    return found


def _memberships(history: History) -> list[WaveMembership]:
    """Read when each engine was in which wave: from the start that it heard to the end of it."""
    found: list[WaveMembership] = []
    inside: dict[str, WaveMembership] = {}
    next_wave: dict[str, int] = {}
    rank: dict[str, int] = {}
    for event in history.events:
        acted = event.kind == "intent" and event.text("fault") in ("kill", "exit", "sigterm")
        role = event.text("target") if acted else event.role
        if event.kind == "linked" and "rank" in event.data:
            rank[role], next_wave[role] = event.number("rank"), 0
            _left(inside, role, event)
        elif event.kind == "unlinked" or acted:
            _left(inside, role, event)
        elif event.kind == "ended" and role in inside:
            entry = inside.pop(role)
            entry.until, entry.ended = event.t, event
            next_wave[role] = event.number("wave")
        elif event.kind == "heard" and event.text("what") == "start" and role in rank:
            members = tuple(each for each in event.items("members") if isinstance(each, int))
            wave, own = event.number("wave"), inside.get(role)
            newer = wave >= next_wave[role] if own is None else wave > own.wave
            if newer and rank[role] in members:
                _left(inside, role, event)
                inside[role] = WaveMembership(role, rank[role], wave, members, event)
                found.append(inside[role])
                next_wave[role] = wave
    return found


def _left(inside: dict[str, WaveMembership], role: str, event: Event) -> None:
    entry = inside.pop(role, None)
    if entry is not None:
        entry.until = event.t
