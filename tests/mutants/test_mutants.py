"""Each mutant of the reference is caught, by its case, as the right kind; the reference is not."""

from __future__ import annotations

import pytest
from broken_groups import CAUGHT
from mutant_table import CANARY, MUTANTS, Mutant

from killpoint.cases import select
from killpoint.explore.trial import Trial
from killpoint.invariants import CATALOGUE
from killpoint.judge import judge
from killpoint.stage.stage import Stage
from killpoint.targets.registry import resolve
from killpoint.verdict import CaseOutcome


def _outcome(spec: str, name: str, samples: int = 1) -> CaseOutcome:
    case = select([name])[0]
    with Stage(resolve(spec)) as stage:
        for seed in range(samples):
            trial = Trial(case.id, stage, seed=seed, full=False, folder=None, target=spec)
            outcome = trial.judge(case.run)
            if outcome.outcome == "violated":
                break
        return outcome


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_mutant_is_caught_by_its_case(mutant: Mutant) -> None:
    outcome = _outcome(f"mutated:{mutant.name}", mutant.caught_by, mutant.samples)
    if outcome.by_machine:
        pytest.skip(outcome.cause)
    assert outcome.outcome == "violated", outcome
    assert outcome.kind in mutant.kinds, outcome.cause


def test_every_invariant_that_can_hold_has_a_mutant() -> None:
    judged = {item.id for item in CATALOGUE if item.id != "Q13"}
    caught = {mutant.caught_by for mutant in MUTANTS} | {case for case, _ in CAUGHT.values()}
    assert judged - {case.split("/")[0] for case in caught} == set()


def test_canary_fails_the_check() -> None:
    judgement = judge(f"mutated:{CANARY.name}", [CANARY.caught_by], jobs=1)
    assert judgement.status() == 1
