"""Each mutant of the reference is caught, by its case, as the right kind; the reference is not.

On every commit one mutant of each invariant is; all of them with ``--full``. Several are judged at
a time: what a mutant breaks shows most often in a wait that is in vain.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from broken_engines import CAUGHT as CAUGHT_ENGINES
from broken_groups import CAUGHT
from broken_tensors import CAUGHT as CAUGHT_PIPES
from mutant_table import CANARY, MUTANTS, Mutant

from killpoint.cases import select
from killpoint.invariants import CATALOGUE
from killpoint.judgement.judge import judge
from killpoint.runner.stage import Stage
from killpoint.search import generated
from killpoint.search.case_run import CaseRun
from killpoint.verdict import CaseOutcome

_AT_PLACES = [
    Mutant("q6_death_is_not_told", "Q6/writer-killed-at-stores", ("hang",), ()),
    Mutant("q6_death_is_not_told", "Q6/writer-killed-inside-native-send", ("hang",), ()),
    Mutant("q6_death_is_not_told", "Q6/writer-killed-after-large-send", ("hang",), ()),
    Mutant("q7_dead_reader_is_waited_for", "Q7/reader-killed-at-stores", ("hang",), ()),
    Mutant("r2_published_before_filled", "R3/stopped-at-stores", ("wrong-data", "lost"), ()),
]
"""Other cases that find the same: sweeps over stores and native calls, and a death at no point."""

_ROWS = [*(mutant for mutant in MUTANTS if mutant is not CANARY), *_AT_PLACES]
_PARTS, _AT_ONCE = 16, 3


def _outcome(mutant: Mutant) -> CaseOutcome:
    spec = f"mutated:{mutant.name}"
    case = select([mutant.caught_by])[0]
    with Stage(spec) as stage:
        for seed in range(mutant.samples):
            case_run = CaseRun(case.id, stage, seed=seed, full=False, folder=None, target=spec)
            outcome = case_run.judge(case.run)
            if outcome.outcome == "violated":
                break
        return outcome


_LONG = {
    "c6_nobody_is_ever_silent",
    "c6_who_was_silent_stays_gone",
    "c7_published_once_nothing_comes",
    "e1_why_is_not_said",
    "e2_blocks_known_by_what_is_in_them",
    "e2_what_was_given_is_given_again",
    "e3_nobody_comes_back",
    "e4_it_always_makes_progress",
    "e4_ready_before_it_is_loaded",
    "h5_scaling_forgets_what_ranks_told",
    "h5_who_returns_has_the_counts_of_who_was_lost",
    "h6_attempts_at_a_reused_id_have_one_name",
}
"""Mutants that take their time to be convicted. For an engine's a stranger's broken engines stand
(``test_engine_target``), for others another one of the invariant."""


_BRIEF = list({m.invariant: m for m in reversed(_ROWS) if m.name not in _LONG}.values())
"""The first of each invariant."""


@pytest.fixture(autouse=True)
def unshrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a mutant is caught is all that is asked here."""
    monkeypatch.setattr(generated, "_SHRUNK_FOR", 0.0)


@pytest.mark.parametrize("part", range(_PARTS))
def test_mutants_are_caught_by_their_cases(
    part: int, subtests: pytest.Subtests, pytestconfig: pytest.Config
) -> None:
    rows = (_ROWS if pytestconfig.getoption("--full") else _BRIEF)[part::_PARTS]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        outcomes = [pool.submit(_outcome, mutant) for mutant in rows]
    for mutant, found in zip(rows, outcomes, strict=True):
        with subtests.test(f"{mutant.name} by {mutant.caught_by}"):
            outcome = found.result()
            if outcome.by_machine:
                pytest.skip(outcome.cause)
            assert outcome.outcome == "violated", outcome
            assert outcome.kind in mutant.kinds, outcome.cause


def test_every_invariant_that_can_hold_has_a_mutant() -> None:
    others = {
        "Q13",
        *(item.id for item in CATALOGUE if "server" in item.needs),
    }  # test_lying_servers
    judged = {item.id for item in CATALOGUE} - others
    broken = [*CAUGHT.values(), *CAUGHT_PIPES.values(), *CAUGHT_ENGINES.values()]
    caught = {mutant.invariant for mutant in MUTANTS} | {case.split("/")[0] for case, _ in broken}
    assert judged - caught == set()


def test_canary_fails_the_check() -> None:
    judgement = judge(f"mutated:{CANARY.name}", [CANARY.caught_by], jobs=1)
    assert judgement.status() == 1
    (canary,) = judgement.verdicts[0].cases
    assert (canary.outcome, canary.kind) == ("violated", *CANARY.kinds)
