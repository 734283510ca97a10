"""Scenarios that are drawn, and shrunk when they are violated.

Where a play is brief, Hypothesis draws many and shrinks. Where its start takes seconds, a seed
draws few and rich ones, and parts of them are left out, many at a time.

In a campaign, plays record which lines of the target they run. From its second round on, Hypothesis
looks for programs that score well by them, near those that scored well before.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator

from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

from killpoint.scenario import Scenario
from killpoint.search.case_run import CaseRun, Violated
from killpoint.search.drawing import by_seed_alone
from killpoint.search.races import told_by_chance

_SHRUNK_FOR = 15.0
"""Seconds for which a violated scenario is shrunk; ten times as long under ``--full``. No play is
begun that would last longer, if it took as long as the last one that violated."""
Candidates = Callable[[Scenario], Generator[Scenario, bool, object]]
"""Yields smaller scenarios one by one, and is sent whether the one just offered still violates."""


def programs_case(
    programs: Callable[[str, int], st.SearchStrategy[Scenario]], plain: int, full: int
) -> Callable[[CaseRun], None]:
    """Return what plays programs: some of them in a plain check, and more under ``--full``.

    ``programs`` makes their strategy from the case's id and the seed.
    """

    def play(case_run: CaseRun) -> None:
        strategy = programs(case_run.outcome.id, case_run.seed)
        generated(case_run, strategy, full if case_run.full else plain)

    return play


def generated(case_run: CaseRun, scenarios: st.SearchStrategy[Scenario], examples: int) -> None:
    """Let Hypothesis choose scenarios, and shrink the first that violates.

    With a folder of examples, those that violated before are played first.

    Raises:
        Violated: the smallest violating scenario found has been recorded in the outcome.
    """
    case_run.keeps_latest = True
    reach = case_run.reach
    case_run.records = reach is not None
    steers = [Phase.target] if reach is not None and reach.steers else []
    longest = _shrunk_for(case_run)
    end = took = 0.0
    known = DirectoryBasedExampleDatabase(case_run.examples) if case_run.examples else None

    @settings(  # above the seed, which would take the database away again
        max_examples=examples,
        database=known,
        derandomize=False,  # what a profile may ask for, and no database goes with
        deadline=None,
        phases=[Phase.reuse, Phase.generate, *steers, Phase.shrink],
        suppress_health_check=(
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.large_base_example,
        ),
        print_blob=False,
        report_multiple_bugs=False,
    )
    @seeded(case_run.seed)
    @given(scenarios)
    def attempt(scenario: Scenario) -> None:
        nonlocal end, took
        began = time.monotonic()
        if end and began + took > end:
            return  # nothing smaller is looked for any more
        try:
            case_run.play(scenario)
        except Violated:
            took = time.monotonic() - began
            end = end or time.monotonic() + longest
            raise
        if reach is not None and steers:
            for label, score in reach.scores().items():
                target(score, label=label)

    try:
        with by_seed_alone():
            attempt()
    except Violated:
        told_by_chance(case_run, took)
        raise
    except BaseExceptionGroup as group:
        # Hypothesis wraps what failed on one try and not on the next; a recorded violation stays.
        if case_run.outcome.outcome == "violated":
            told_by_chance(case_run, took)
            raise Violated(case_run.outcome.cause) from group
        raise group.exceptions[0] from group


def drawn(case_run: CaseRun, scenario: Scenario, candidates: Candidates) -> None:
    """Play a scenario that a seed drew, and smaller ones if it violates.

    Raises:
        Violated: the smallest violating scenario found has been recorded in the outcome.
    """
    began = time.monotonic()
    case_run.records = case_run.reach is not None
    try:
        case_run.play(scenario)
    except Violated as first:
        took = time.monotonic() - began
        smaller(case_run, candidates(scenario), _shrunk_for(case_run), took)
        told_by_chance(case_run, took)
        raise Violated(case_run.outcome.cause) from first


def smaller(
    case_run: CaseRun, offers: Generator[Scenario, bool, object], seconds: float, took: float = 0.0
) -> None:
    """Play smaller and smaller scenarios that violate, for so long.

    Args:
        took: seconds of the last play; none is begun that would end too late if it took as long.
    """
    until = time.monotonic() + seconds
    with contextlib.suppress(StopIteration):
        candidate = next(offers)
        while (began := time.monotonic()) + took < until:
            violates = _violates(case_run, candidate)
            took = time.monotonic() - began
            candidate = offers.send(violates)


def _violates(case_run: CaseRun, scenario: Scenario) -> bool:
    try:
        case_run.play(scenario)
    except Violated:
        return True
    return False


def _shrunk_for(case_run: CaseRun) -> float:
    return _SHRUNK_FOR * (10 if case_run.full else 1)
