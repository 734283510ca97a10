"""Lies that only the loads of users, or the grid under ``--full``, bring to light."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from killpoint.cases import EVERY_CASE
from killpoint.explore.trial import Trial
from killpoint.stage.stage import Stage
from killpoint.targets.registry import resolve
from killpoint.verdict import CaseOutcome

EXAMPLE = Path(__file__).parents[3] / "examples" / "plain_server.toml"
LIES = (
    ("drops-slow", "E9/slow-readers", "lost"),
    ("errs-when-full", "E2/open-loop", "wrong-data"),
    ("keeps-whole", "E9/whole-requests-aborted", "leak"),
    ("ends-with-0", "E7/core-killed-idle", "no-error"),
    ("truncates", "E5/worker-killed-in-prefill", "lost"),
)
HELD = (*("E6/front-sigint-idle", "E1/front-out-of-descriptors", "E5/tmp-full", "E7/shm-full"),)
"""All that can run out, and who is told to end, idle."""
STARTS = (
    *("E1/worker-killed-while-starting", "E7/core-killed-late-in-start"),
    *("E8/front-killed-late-in-start",),
)
"""Every stage of a start."""
UNSUPPORTED = ("E1/api-server-killed-idle", "E5/core-killed-while-recovering")


def _stage(folder: Path, lie: str = "", starts: float = 0.5) -> Stage:
    text = EXAMPLE.read_text("utf-8").replace("{here}", str(EXAMPLE.parent))
    file = folder / "server.toml"
    told = f'"{{port}}", "{lie}"]\nenvironment = {{ PLAIN_STARTS = "{starts}" }}'
    file.write_text(text.replace('"{port}"]', told), "utf-8")
    return Stage(resolve(f"serve:{file}"))


def _judged(stage: Stage, id: str) -> CaseOutcome:
    case = next(case for case in EVERY_CASE if case.id == id)
    return Trial(id, stage, seed=0, full=False, folder=None).judge(case.run)


@pytest.mark.parametrize(("lie", "id", "kind"), LIES, ids=lambda each: each)
def test_a_lie_is_convicted_by_its_case(lie: str, id: str, kind: str, tmp_path: Path) -> None:
    with _stage(tmp_path, lie) as stage:
        outcome = _judged(stage, id)
    assert (outcome.outcome, outcome.kind) == ("violated", kind), outcome.cause
    assert outcome.struck in (None, 1)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with _stage(tmp_path_factory.mktemp("honest")) as stage:
        yield stage


@pytest.mark.parametrize("id", [*(id for _, id, _ in LIES), *HELD])
def test_the_honest_server_holds_it(honest: Stage, id: str) -> None:
    outcome = _judged(honest, id)
    if "-full" in id and outcome.by_machine:
        pytest.skip(outcome.cause)
    assert outcome.outcome == "held", outcome.cause
    assert outcome.struck in (None, 1)


@pytest.mark.parametrize("id", STARTS)
def test_a_start_is_struck_at_its_stage(id: str, tmp_path: Path) -> None:
    with _stage(tmp_path, starts=4.0) as stage:
        outcome = _judged(stage, id)
    assert (outcome.outcome, outcome.struck) == ("held", 1), outcome.cause


@pytest.mark.parametrize("id", UNSUPPORTED)
def test_what_it_has_not_is_unsupported(honest: Stage, id: str) -> None:
    assert _judged(honest, id).outcome == "unsupported"
