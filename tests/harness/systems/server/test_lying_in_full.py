"""Lies that only the loads of users, or the grid under ``--full``, bring to light.

Each is a play of 10 to 25 s, and so are the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from killpoint.cases import EVERY_CASE
from killpoint.runner.stage import Stage
from killpoint.scenario import Scenario
from killpoint.search.case_run import CaseRun
from killpoint.systems.server.checks import judge
from killpoint.systems.server.plays.grid import FULL_PLAYS
from killpoint.systems.server.processes import exhaustion
from killpoint.targets.registry import resolve
from killpoint.verdict import CaseOutcome

pytestmark = pytest.mark.full

EXAMPLE = Path(__file__).parents[3] / "examples" / "plain_server.toml"
LIES = (
    ("drops-slow", "E9/slow-readers", "lost"),
    ("errs-when-full", "E2/open-loop", "wrong-data"),
    ("keeps-whole", "E9/whole-requests-aborted", "leak"),
    ("ends-with-0", "E7/core-killed-idle", "no-error"),
    ("truncates", "E5/worker-killed-in-prefill", "lost"),
)
HELD = (
    *("E1/front-out-of-descriptors", "E5/tmp-full", "E7/shm-full"),  # all that can run out
    "E6/front-sigint-idle",
)
STARTS = (
    ("worker-killed-while-starting", 0.0, 3.0),
    ("core-killed-late-in-start", 2.4, 30.0),
    ("front-killed-late-in-start", 2.4, 30.0),
)
"""Every stage of a start of four seconds, and when it is struck, at the earliest and latest."""
UNSUPPORTED = ("E1/api-server-killed-idle", "E5/core-killed-while-recovering")


def _stage(folder: Path, lie: str = "", starts: float = 0.5) -> Stage:
    text = EXAMPLE.read_text("utf-8").replace("{here}", str(EXAMPLE.parent))
    file = folder / "server.toml"
    told = f'"{{port}}", "{lie}"]\nenvironment = {{ PLAIN_STARTS = "{starts}" }}'
    file.write_text(text.replace('"{port}"]', told), "utf-8")
    return Stage(resolve(f"serve:{file}"))


def _judged(stage: Stage, id: str) -> CaseOutcome:
    case = next(case for case in EVERY_CASE if case.id == id)
    return CaseRun(id, stage, seed=0, full=False, folder=None).judge(case.run)


def _play(scenario: Scenario, case_run: CaseRun) -> None:
    case_run.play(scenario)


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


@pytest.mark.parametrize(("name", "least", "most"), STARTS)
def test_a_start_is_struck_at_its_stage(
    name: str, least: float, most: float, tmp_path: Path
) -> None:
    [play] = (play for play in FULL_PLAYS if play.name == name)
    with _stage(tmp_path, starts=4.0) as stage:
        played = stage.play(play.scenario(play.judges[0]))
    assert (played.unreached, played.stalled) == ([], "")
    begun = played.history.first("begun")
    assert begun is not None
    assert least <= float(str(begun.data["s"])) <= most
    assert played.history.first("struck") is not None
    assert judge(play.judges[0], played.scenario, played.history, played.ledger).violations == []


def test_what_the_machine_does_not_permit_is_told_as_that(
    honest: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(launcher: int, folder: Path) -> None:
        raise exhaustion.Exhausted(f"no tmpfs at {folder.name} for {launcher > 0}")

    monkeypatch.setattr(exhaustion, "own_temporary", refuse)
    with_it = next(play for play in FULL_PLAYS if play.name == "tmp-full")
    again = msgspec.structs.replace(with_it.scenario("E7"), seed=1)  # not what others have played
    outcome = CaseRun("E7/tmp-full", honest, seed=0, full=False, folder=None).judge(
        partial(_play, again)
    )
    assert (outcome.outcome, outcome.by_machine) == ("unsupported", True)
    assert outcome.cause == "no tmpfs at t for True"


@pytest.mark.parametrize("id", UNSUPPORTED)
def test_what_it_has_not_is_unsupported(honest: Stage, id: str) -> None:
    assert _judged(honest, id).outcome == "unsupported"
