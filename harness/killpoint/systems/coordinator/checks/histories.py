"""Histories of many peers at once, against the specification of a coordinator (H5).

Each front end hears publications in an order, and each of these is one of a coordinator that took
the reports of every rank in order, and everybody's coming and going within the bounds of C6 and C7.
What a publication says of ranks and their counts is judged here; waves are judged in
:mod:`killpoint.systems.coordinator.checks.wave_histories`.
"""

from __future__ import annotations

from collections.abc import Iterator

from killpoint.checkers.finding import Finding, Inconclusive, evidence, hangs
from killpoint.checkers.overlap import overlap
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.coordinator.checks.facts import NOTICED, Facts, Link, Rule
from killpoint.systems.coordinator.checks.wave_histories import WAVE_RULES
from killpoint.systems.coordinator.model import RankCounts, Sizes, Told
from killpoint.systems.coordinator.record import NEVER, Stay, ms
from killpoint.verdict import Violation

_WAITS = 4
"""Waits on a change's way: of the engine, of the coordinator for it and for its time to publish, of
the front end. Each may be as late as the latest control."""
_STALLED = 1.0
"""Seconds for which a machine that stood still may have kept a rank, and the coordinator, from a
sign of life so long that the rank was given up."""


def check_h5_coordinator_history(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """H5: what the peers saw of the coordinator could have been."""
    facts = Facts.of(scenario, history)
    found = list[Violation]()
    for rule in (*_RULES, *WAVE_RULES):
        found = found or list(rule(facts))[:1]
    held_up = _given_up(facts) if found else 0.0
    if held_up > _STALLED:
        raise Inconclusive(f"all were held up for {held_up:.1f} s, and a rank was given up")
    found = found or hangs(history)
    if not found and not any(link.heard for link in facts.links):
        raise Inconclusive("no front end was told anything")
    missed = next((e for e in history.of("hear-done") if e.text("outcome") == "timeout"), None)
    if not found and missed is not None:
        what = f"{missed.role} waited for {missed.text('what')} in vain"
        raise Inconclusive(f"{what}, and what it was told could have been")
    states, transitions = _states(facts)
    return Finding(
        found[:1],
        {
            "changes": sum(len(told) for told in facts.told.values()),
            **overlap(_operations(facts)),
            "states": states,
            "transitions": transitions,
        },
    )


def _given_up(facts: Facts) -> float:
    """Return for how long all were held up at most before a rank was given up that was there.

    That is in seconds, and within a silence before a front end was first told so.
    """
    longest = 0
    for link in facts.links:
        before: set[int] = set()
        for publication in link.heard:
            if publication.counts is None:
                continue
            t = publication.event.t
            gone = {rank for rank, counts in enumerate(publication.counts) if counts is None}
            if any(s.covers(t, t) for rank in gone - before for s in facts.of_rank(rank)):
                longest = max(longest, facts.history.lateness(t - ms(NOTICED), t))
            before = gone
    return longest / 1e9


def _operations(facts: Facts) -> Iterator[tuple[int, int]]:
    """Yield the time for which each operation was under way: until it was known, or done."""
    for told in facts.told.values():
        yield from ((each.since, each.known) for each in told if each.known < NEVER)
    yield from ((each.event.t, each.known) for each in facts.scaled)
    yield from ((stay.asked, stay.ended) for stay in facts.stays)
    yield from ((entry.began.t, entry.until) for entry in facts.memberships)


def _states(facts: Facts) -> tuple[int, int]:
    """Return the numbers of states, and of steps between two of them, that the play came through.

    A state is the number of ranks, how many links each has, how many front ends there are, and who
    is in a wave.
    """
    steps: list[tuple[int, str, int]] = []
    for stay in facts.stays:
        who = "front end" if stay.rank is None else f"rank {stay.rank}"
        steps += [(stay.asked, who, 1), (stay.ended, who, -1)]
    for entry in facts.memberships:
        steps += [
            (entry.began.t, f"in wave {entry.rank}", 1),
            (entry.until, f"in wave {entry.rank}", -1),
        ]
    steps += [(each.event.t, "size", each.size) for each in facts.scaled]
    now = {"size": facts.first_size}
    states, transitions = set[object](), set[object]()
    for _, who, by in sorted(step for step in steps if step[0] < NEVER):
        before = frozenset(now.items())
        now[who] = by if who == "size" else now.get(who, 0) + by
        states.add(frozenset(now.items()))
        transitions.add((before, who, by))
    return len(states), len(transitions)


# -- rules: each yields what it cannot explain -----------------------------------------------


def _lives(facts: Facts) -> Iterator[Violation]:
    """The coordinator does not end before it is closed."""
    closed = facts.history.first("coordinator-close")
    for event in facts.history.of("coordinator-gone"):
        if closed is None or event.t < closed.t:
            cause = f"the coordinator ended unasked: {event.text('line')}".rstrip(": ")
            yield Violation("crash", cause, evidence(facts.history, [event]))


def _number(facts: Facts) -> Iterator[Violation]:
    """A publication is of as many ranks as there are."""
    scaled = [(each.event.t, each.size) for each in facts.scaled]
    for link in facts.links:
        before = [(0, facts.first_size), *((e.known, e.size) for e in facts.scaled)]
        known = sum(t < link.asked for t, _ in before) - 1
        seen = Sizes(before[known][1], scaled[known:])
        for publication in link.heard:
            if publication.counts is None:
                continue
            if not seen.hear(publication.event.t, len(publication.counts)):
                cause = f"{link.role} was told of {len(publication.counts)} ranks, which nobody"
                events = [*(each.event for each in facts.scaled), publication.event]
                yield Violation("wrong-data", f"{cause} asked for", evidence(facts.history, events))


def _counts(facts: Facts) -> Iterator[Violation]:
    """A publication has counts that each rank told, in the order in which it told them."""
    for link in facts.links:
        seen: dict[int, RankCounts] = {}
        for publication in link.heard:
            for rank, counts in enumerate(publication.counts or ()):
                if rank not in seen:
                    told = facts.told.get(rank, [])
                    seen[rank] = RankCounts(told, facts.forgotten(rank), link.asked)
                wrong = seen[rank].hear(publication.event.t, counts)
                if wrong:
                    cause = f"{link.role} was told the counts {list(counts or ())} of rank {rank},"
                    events = [*_said(facts, rank, publication.event), publication.event]
                    yield Violation(
                        "wrong-data", f"{cause} {wrong}", evidence(facts.history, events)
                    )


def _said(facts: Facts, rank: int, until: Event) -> list[Event]:
    """Return the last reports of a rank's counts before an event."""
    said = [e for e in facts.history.of("said") if e.number("rank") == rank and e.t <= until.t]
    return [e for e in said if e.data.get("counts")][-3:]


def _gone_in_vain(facts: Facts) -> Iterator[Violation]:
    """No rank is told to be gone whose link has been there for as long as a return may take."""
    for link in facts.links:
        for publication in link.heard:
            t = publication.event.t
            for rank, counts in enumerate(publication.counts or ()):
                if counts is not None:
                    continue
                since = t - ms(NOTICED)
                since -= facts.history.allowance(since, t)
                there = [s for s in facts.of_rank(rank) if s.covers(since, t)]
                if there and facts.in_range(rank, since, t):
                    cause = f"{link.role} was told that rank {rank} is gone, which had been there"
                    cause += f" for {NOTICED:g} s as {there[0].role}"
                    yield Violation("lost", cause, evidence(facts.history, [publication.event]))


def _missed(facts: Facts) -> Iterator[Violation]:
    """A rank whose last link has ended is told to be gone within 5 s (C6)."""
    ranks = sorted({stay.rank for stay in facts.stays if stay.rank is not None})
    for rank in ranks:
        own = facts.of_rank(rank)
        for stay in own:
            if stay.ended == NEVER:
                continue
            due = facts.due(stay.ended, ms(NOTICED))
            if any(other is not stay and other.meets(stay.ended, due) for other in own):
                continue
            if not facts.in_range(rank, stay.ended, due):
                continue
            for link in facts.links:
                for publication in link.heard:
                    late = publication.event.t > due and publication.of(rank) is not None
                    again = [o for o in own if o.asked > stay.ended]
                    if late and not any(o.asked <= publication.event.t for o in again):
                        cause = f"{link.role} was told of rank {rank} {NOTICED:g} s after the end"
                        cause += f" of its last link, that of {stay.role}"
                        yield Violation(
                            "no-error", cause, evidence(facts.history, [publication.event])
                        )


def _told_in_time(facts: Facts) -> Iterator[Violation]:
    """A change of counts is told to each front end that is there as soon as C7 demands."""
    fronts = [stay for stay in facts.stays if stay.rank is None]
    for rank, told in facts.told.items():
        forgotten = facts.forgotten(rank)
        for n, change in enumerate(told):
            stay = next((s for s in facts.of_rank(rank) if _tells(s, change)), None)
            if stay is None:
                continue
            since = max(change.since, stay.since)
            late = facts.history.lateness(since, since + facts.prompt)
            due = since + facts.prompt + _WAITS * late
            kept = not any(begin <= due and change.since <= end for begin, end in forgotten)
            if stay.until <= due or not kept or not facts.in_range(rank, change.since, due):
                continue
            for front in fronts:
                if front.covers(change.since, due) and not _hears(
                    facts, front, rank, told[n:], due
                ):
                    yield _starved(facts, front, rank, told, n)


def _tells(stay: Stay, change: Told) -> bool:
    return stay.role == change.role and stay.asked <= change.since < stay.until


def _hears(facts: Facts, front: Stay, rank: int, told: list[Told], due: int) -> bool:
    """Return whether a front end heard of one of these counts of a rank by then."""
    return any(
        publication.of(rank) == change.counts
        for change in told
        for link in facts.links
        for publication in link.heard
        if link.role == front.role and change.since <= publication.event.t <= due
    )


def _starved(facts: Facts, front: Stay, rank: int, told: list[Told], n: int) -> Violation:
    counts = list(told[n].counts)
    cause = f"{front.role} heard of the counts {counts} that rank {rank} told"
    heard = [
        publication.event
        for link in facts.links
        for publication in link.heard
        if link.role == front.role
        and publication.event.t >= told[n].since
        and any(publication.of(rank) == each.counts for each in told[n:])
    ]
    said = [e for e in facts.history.of("said") if e.t == told[n].since]
    lines = evidence(facts.history, [*said, *heard[:1]])
    if not heard:
        never = f"{front.role} never heard of the counts {counts} that rank {rank} told"
        return Violation("starved", never, lines)
    took, allowed = (heard[0].t - told[n].since) / 1e9, facts.prompt / 1e9
    return Violation(
        "starved", f"{cause} only after {took:.2f} s; {allowed:.2f} s are allowed", lines
    )


def _newcomers(facts: Facts) -> Iterator[Violation]:
    """A front end that comes is told of all ranks with the next publication that is due anyway."""
    for stay in facts.stays:
        if stay.rank is not None or stay.since == NEVER:
            continue
        due = facts.due(stay.since, facts.idle)
        link = _link_of(facts, stay)
        if link is None or stay.until <= due or _ended(facts) <= due:
            continue
        if not any(p.counts is not None and p.event.t <= due for p in link.heard):
            cause = f"{stay.role} came, heard the coordinator, and was not told the counts of any"
            lines = [link.linked, *(p.event for p in link.heard[:3])]
            yield Violation("starved", f"{cause} rank", evidence(facts.history, lines))


def _link_of(facts: Facts, stay: Stay) -> Link | None:
    return next((k for k in facts.links if (k.role, k.asked) == (stay.role, stay.asked)), None)


def _ended(facts: Facts) -> int:
    """Return when the coordinator was closed, ns."""
    closed = facts.history.first("coordinator-close")
    return closed.t if closed is not None else NEVER


def _numbers_told(facts: Facts) -> Iterator[Violation]:
    """Another number of ranks is told to all by the next publication that is due anyway."""
    for n, each in enumerate(facts.scaled):
        due = facts.due(each.event.t, facts.idle)
        asker = [
            s for s in facts.stays if s.role == each.event.role and s.covers(each.event.t, due)
        ]
        if not asker or _ended(facts) <= due:
            continue
        sizes = {other.size for other in facts.scaled[n:]}
        for front in facts.stays:
            if front.rank is not None or not front.covers(each.event.t, due):
                continue
            heard = [
                p
                for link in facts.links
                for p in link.heard
                if link.role == front.role and each.event.t <= p.event.t <= due
            ]
            if not any(p.counts is not None and len(p.counts) in sizes for p in heard):
                cause = f"{front.role} was not told that there are {each.size} ranks with the next"
                yield Violation(
                    "late", f"{cause} publication due", evidence(facts.history, [each.event])
                )


_RULES: tuple[Rule, ...] = (
    _lives,
    _number,
    _counts,
    _gone_in_vain,
    _missed,
    _newcomers,
    _numbers_told,
    _told_in_time,
)
