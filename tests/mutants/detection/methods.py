"""The methods: each takes a target and tells what it found."""

from __future__ import annotations

from collections.abc import Sequence

from detection.found import Found
from detection.random_killing import VICTIMS, kill_at_random
from killpoint.cases import select
from killpoint.errors import KillpointError
from killpoint.judgement.judge import judge
from killpoint.runner.stage import Stage
from killpoint.search.case_run import CaseRun
from killpoint.targets.registry import resolve
from killpoint.verdict import CaseOutcome

SWEEPS = (
    "Q6/writer-killed-anywhere",
    "Q7/reader-killed-anywhere",
    "Q6/writer-killed-at-stores",
    "Q7/reader-killed-at-stores",
    "R2/killed-inside-copy",
    "R9/exception-in-send",
    "R9/exception-in-receive",
)
SWEEPS_OF_GROUPS = (
    "G3/killed-anywhere-in-barrier",
    "G4/host-killed-anywhere",
    "G4/member-killed-in-any-call",
    "G4/host-killed-in-any-call",
    "R9/exception-in-group",
)
SWEEPS_OF_POOLS = (
    "W3/killed-anywhere",
    "W4/killed-anywhere",
    "W6/exception-in-a-call",
    "W10/exception-in-the-start",
    "W5/exception-in-the-shutdown",
)
SIMULATED = (
    "Q13/two-senders-every-schedule",
    "Q13/two-receivers-every-schedule",
    "Q8/every-schedule",
    "Q8/late-subscription",
    "R5",
)
"""Cases, or invariants all of whose cases are simulated."""

_UNITS = ("schedules", "stores", "lines")
"""What a case counts that says more than its plays."""


def sweeps_of(case: str) -> Sequence[str]:
    """Those of what the mutant is one of: a worker pool, a process group, or else a queue."""
    return {"W": SWEEPS_OF_POOLS, "G": SWEEPS_OF_GROUPS}.get(case[:1], SWEEPS)


def by_random_killing(target: str, seconds: float, seed: int, case: str = "") -> Found:
    """SIGKILLs at random times, for so many seconds, in what the mutant's own case plays."""
    with Stage(resolve(target)) as stage:
        return kill_at_random(stage, seconds, seed, VICTIMS.get(case[:1], VICTIMS[""]))


def by_sweep(target: str, ids: Sequence[str], seed: int, limit: float | None = None) -> Found:
    """These cases in turn, up to the first that is violated or in a play of which something stays.

    What a play leaves behind convicts it, too: a sweep is the same plays whoever judges them.
    ``limit``: seconds after which no further case is begun.
    """
    found = Found()
    with Stage(resolve(target)) as stage:
        has = set(stage.zygote.loaded.capabilities)
        for case in select(list(ids)):
            if _is_over(found, limit):
                break
            case_run = CaseRun(case.id, stage, seed=seed, full=False, folder=None, target=target)
            outcome = case_run.judge(case.run, case.needs - has)
            _add(found, outcome)
            if outcome.outcome == "violated":
                found.kind, found.by = str(outcome.kind), outcome.id
                return found
            if case_run.leaks:
                found.kind, found.by = case_run.leaks[0].violation.kind, f"L1/in/{case.id}"
                return found
    return found


def by_cases(target: str, ids: Sequence[str], seed: int, limit: float | None = None) -> Found:
    """These cases one after the other, up to the first that is violated.

    ``limit``: seconds after which no further case is begun.
    """
    found = Found()
    reached = False
    for id in _each(ids):
        if _is_over(found, limit):
            break
        try:
            judged = judge(target, [id], seed=seed, jobs=1)
        except KillpointError as error:
            return Found(doubt=str(error))
        for outcome in (case for verdict in judged.verdicts for case in verdict.cases):
            reached = reached or outcome.outcome in ("held", "violated")
            _add(found, outcome)
            if outcome.outcome == "violated":
                found.kind, found.by = str(outcome.kind), outcome.id
                return found
    if not reached:
        return Found(doubt="no case of it ran" if ids else "there are no such cases yet")
    return found


def _is_over(found: Found, limit: float | None) -> bool:
    return limit is not None and found.plays > 0 and found.seconds >= limit


def _each(ids: Sequence[str]) -> list[str]:
    """Case by case; what names none is left as it is, to be told."""
    try:
        return [case.id for case in select(list(ids))] if ids else []
    except KillpointError:
        return list(ids)


def _add(found: Found, outcome: CaseOutcome) -> None:
    unit = next((unit for unit in _UNITS if unit in outcome.counts), "plays")
    if unit != "plays":
        found.unit = unit
    found.plays += outcome.counts.get(unit, outcome.runs)
    found.seconds = round(found.seconds + outcome.seconds, 1)
