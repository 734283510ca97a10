"""Faults at random times: native code cannot be struck at lines, so it is struck at any time.

The duration of the operation is measured first. Then each of many plays strikes at a time of its
own, spread over those durations. The outcome is a matter of chance: it is reported as a rate, with
its confidence interval.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from killpoint.checkers.held_up import full
from killpoint.history.record import History
from killpoint.scenario import AnyStep, Count, Fault, Point, Scenario
from killpoint.search.case_run import CaseRun
from killpoint.search.crash_points import TooLittleRoom
from killpoint.verdict import Kind, Rate, Violation

_SCOUTS = 2
_FULL = 5
"""Times as many under ``--full``."""
_ENOUGH = 5
"""Violations after which the rate is known well enough: a hang costs seconds."""
_USUAL = 0.9
"""The part of the durations, from the shortest, over which times are spread: the rest are those
in which the machine did something else."""
_BEGINS = ("send", "receive")
"""Last event of a role that was struck inside the call of its target."""
_DONE = {"kill": "kills", "stop": "stops"}
_CAME: dict[Kind, str] = {
    "hang": "{} hung",
    "crash": "{} crashed",
    "wrong-data": "data was altered",
    "lost": "messages were lost",
    "duplicate": "a message came twice",
    "reordered": "messages came out of order",
    "late": "a call was late",
}
"""Kinds in the order in which they matter, with what came of the fault."""


def series(scenario: Scenario) -> Fault | None:
    """The fault that is to strike at many times, one in each play; None: it is a single play."""
    for step in scenario.steps:
        if isinstance(step, Fault) and step.at is not None and step.at.spread is not None:
            return step
    return None


def strike_at_random_times(case_run: CaseRun, scenario: Scenario) -> None:
    """Play a series, and tell how often it violated.

    Raises:
        Violated: it did at least once.
        TooLittleRoom: the story does not come to the operation.
    """
    fault = series(scenario)
    assert fault is not None
    assert fault.at is not None
    assert fault.at.spread is not None
    count = fault.at.spread * (_FULL if case_run.full else 1)
    who = _called(fault.role)
    of = f"{_DONE[fault.fault]} of {who} at random times inside {fault.at.op}"
    durations = _measured(case_run, scenario, fault)
    if not durations:
        case_run.inconclusive(
            f"no {fault.at.op} of {fault.role} was timed: nothing can be struck there"
        )
        return
    found: dict[str, list[Violation]] = {}
    struck = 0
    for at in case_run.with_progress(list(_times(case_run, fault.at, durations, count))):
        aimed = msgspec.structs.replace(fault, at=at)
        play, violations = case_run.sample(_with(scenario, fault, aimed))
        if violations is None or not _inside(play.history, fault.role):
            continue
        struck += 1
        for violation in violations[:1]:
            found.setdefault(_came(violation), []).append(violation)
        if sum(map(len, found.values())) >= _ENOUGH:
            break
    _conclude(case_run, scenario, found, of, struck)


def _called(role: str) -> str:
    return "the writer" if role == "writer" else role


def _came(violation: Violation) -> str:
    """Return the outcome of the fault in words, the same for each of several readers."""
    role = violation.cause.split(maxsplit=1)[0]
    victim = "a reader" if role.startswith("reader-") else _called(role)
    return _CAME.get(violation.kind, "a call ended wrongly").format(victim)


def _conclude(
    case_run: CaseRun,
    scenario: Scenario,
    found: dict[str, list[Violation]],
    of: str,
    struck: int,
) -> None:
    if not struck:
        case_run.inconclusive(f"none of the {of} fell inside it")
        return
    if not found:
        case_run.rate(Rate("a survivor was harmed", of, 0, struck))
        return
    order = [*_CAME]
    kinds = {what: violations[0].kind for what, violations in found.items()}
    rank = {
        what: order.index(kind) if kind in order else len(order) for what, kind in kinds.items()
    }
    ranked = sorted(found, key=lambda what: (rank[what], what))
    rates = [Rate(what, of, len(found[what]), struck) for what in ranked]
    for rate in rates:
        case_run.rate(rate)
    first = found[ranked[0]][0]
    cause = f"{rates[0].words()}: {first.cause}"
    again = case_run.kept.replay_of(scenario, cause)
    replay = case_run.kept.text(again, case_run.outcome.id)
    case_run.fail(Violation(first.kind, cause, first.evidence), replay)


def _measured(case_run: CaseRun, scenario: Scenario, fault: Fault) -> list[float]:
    """Durations of the operation in seconds, from the shortest on."""
    assert fault.at is not None
    count = Count(fault.role, Point(fault.at.op), "times")
    plays = [case_run.dry_run(_with(scenario, fault, count)) for _ in range(_SCOUTS)]
    refused = [full(play.history) for play in plays]
    if all(refused):
        raise TooLittleRoom(refused[0])
    took = [e.number("ns") / 1e9 for play in plays for e in play.history.of("took")]
    return sorted(took)


def _with(scenario: Scenario, fault: Fault, step: AnyStep) -> Scenario:
    steps: list[AnyStep] = [step if each is fault else each for each in scenario.steps]
    if isinstance(step, Count):  # a role that was not stopped is not let go on either
        steps = [s for s in steps if not (isinstance(s, Fault) and s.fault == "continue")]
    return msgspec.structs.replace(scenario, steps=steps)


def _times(case_run: CaseRun, at: Point, durations: list[float], count: int) -> Iterator[Point]:
    """Points spread evenly over the usual durations, in an order of the seed's."""
    usual = durations[: max(1, round(len(durations) * _USUAL))]
    parts = [(place + case_run.random.random()) / count for place in range(count)]
    case_run.random.shuffle(parts)
    for part in parts:
        after = round(part * case_run.random.choice(usual), 9)
        nth = case_run.random.randrange(max(1, len(durations) // _SCOUTS // 2))
        yield msgspec.structs.replace(at, spread=None, after=after, nth=nth)


def _inside(history: History, role: str) -> bool:
    """Return whether a role was struck between the call's begin and its return."""
    reached = next((e.t for e in history.of("reached") if e.text("target") == role), None)
    own = [e for e in history.events if e.role == role and (reached is None or e.t <= reached)]
    return bool(own) and own[-1].kind in _BEGINS
