"""A server that lies in one way is convicted by the case of that way; an honest one holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from killpoint.case import Case
from killpoint.cases import SERVER_CASES
from killpoint.invariants import CATALOGUE
from killpoint.runner.stage import Stage
from killpoint.search.case_run import CaseRun
from killpoint.systems.server.plays.grid import GRID_PARTS, cell
from killpoint.systems.server.record import life
from killpoint.targets.registry import resolve
from killpoint.verdict import CaseOutcome

EXAMPLE = Path(__file__).parents[3] / "examples" / "plain_server.toml"
REPLICAS = EXAMPLE.with_name("plain_replicas.toml")
LIES = (
    ("truncates", "E5/worker-killed-in-decode", "lost"),
    ("mute", "E1/worker-killed-in-decode", "no-error"),
)
LONG_LIES = (
    ("keeps-places", "E9/clients-hang-up", "leak"),
    ("decodes", "S3/strangers", "exposure"),
    ("ends-with-0", "E7/worker-killed-in-decode", "no-error"),
    ("other-tokens", "E2/undisturbed", "wrong-data"),
    ("litters", "L1/undisturbed", "leak"),
    ("remembers", "E10/refused-and-aborted", "wrong-data"),
    ("other-tokens", "H7/generated", "wrong-data"),
    ("hangs-at-sigterm", "E6/sigterm-in-decode", "hang"),
    ("listens-wide", "S1/strangers", "exposure"),
    ("open-to-all", "S2/strangers", "exposure"),
    ("orphans", "E8/front-killed-in-decode", "leak"),
    ("health-lies", "E4/worker-stopped", "no-error"),
    ("tells-all", "S3/strangers", "exposure"),
    ("drops-at-visits", "S3/strangers", "lost"),
)
OF_REPLICAS = "E3/replica-killed"
REPLICA_LIES = (
    ("fails-all", "lost"),
    ("fails-late", "late"),
    ("fails-later-ones", "lost"),
    ("starves", "starved"),
    ("stays-half", "starved"),
    ("ends", "starved"),
)


def test_every_clause_that_is_asked_of_servers_has_a_lie() -> None:
    caught = {case.split("/")[0] for _, case, _ in (*LIES, *LONG_LIES)} | {"E3"}
    assert caught == {item.id for item in CATALOGUE if "server" in (*item.needs, item.instead)}


def _stage(folder: Path, lie: str = "", example: Path = EXAMPLE) -> Stage:
    keeps = 'environment = { PLAIN_CACHE = "{folder}" }\n[titles]'  # which is no leak
    text = example.read_text("utf-8").replace("[titles]", keeps)
    text = text.replace("{here}", str(example.parent))
    file = folder / "server.toml"
    file.write_text(text.replace('"{port}"]', f'"{{port}}", "{lie}"]'), "utf-8")
    return Stage(resolve(f"serve:{file}"))


def _judged(stage: Stage, id: str) -> CaseOutcome:
    case = next(case for case in SERVER_CASES if case.id == id)
    return CaseRun(id, stage, seed=0, full=False, folder=None).judge(case.run)


def _convicted(folder: Path, lie: str, id: str, kind: str, example: Path = EXAMPLE) -> None:
    with _stage(folder, lie, example) as stage:
        outcome = _judged(stage, id)
    assert (outcome.outcome, outcome.kind) == ("violated", kind), outcome.cause
    assert outcome.struck in (None, 1)


@pytest.mark.parametrize(("lie", "id", "kind"), LIES, ids=lambda each: each)
def test_a_lie_is_convicted_by_its_case(lie: str, id: str, kind: str, tmp_path: Path) -> None:
    _convicted(tmp_path, lie, id, kind)


@pytest.mark.full
def test_a_worker_is_killed_in_the_midst_of_a_utility_call(honest: Stage) -> None:
    worker = next(part for part in GRID_PARTS if part.word == "worker")
    play = honest.play(cell(worker, "kill", "utility").scenario("E1"))
    assert (play.stalled, play.unreached) == ("", [])
    of = life(play.history)
    calls = {e.number("n") for e in play.history.of("ask") if e.text("phase") == "utility"}
    struck = of.first("kill", part="worker-0")
    amid = [each.end for each in of.requests if each.n in calls and each.open_at(struck.t)]
    assert amid == ["error"]


@pytest.mark.full
@pytest.mark.parametrize(("lie", "id", "kind"), LONG_LIES, ids=lambda each: each)
def test_a_lie_that_takes_time_is_convicted(lie: str, id: str, kind: str, tmp_path: Path) -> None:
    _convicted(tmp_path, lie, id, kind)


@pytest.mark.full
@pytest.mark.parametrize(("lie", "kind"), REPLICA_LIES, ids=lambda each: each)
def test_a_lie_about_a_dead_replica_is_convicted(lie: str, kind: str, tmp_path: Path) -> None:
    _convicted(tmp_path, lie, OF_REPLICAS, kind, REPLICAS)


@pytest.mark.full
def test_a_server_of_replicas_that_goes_on_without_one_holds(tmp_path: Path) -> None:
    with _stage(tmp_path, "", REPLICAS) as stage:
        outcome = _judged(stage, OF_REPLICAS)
    assert outcome.outcome == "held", outcome.cause


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with _stage(tmp_path_factory.mktemp("honest")) as stage:
        yield stage


_ONCE = {"E5/worker-killed-in-decode"}
"""What an honest server holds in each run of the tests; everything under ``--full``."""


@pytest.mark.parametrize(
    "id",
    [id if id in _ONCE else pytest.param(id, marks=pytest.mark.full) for _, id, _ in LIES],
)
def test_the_honest_server_holds_what_the_lies_are_convicted_of(honest: Stage, id: str) -> None:
    outcome = _judged(honest, id)
    assert outcome.outcome == "held", outcome.cause


@pytest.mark.full
@pytest.mark.parametrize("case", SERVER_CASES, ids=lambda case: case.id)
def test_the_honest_server_holds_everything(honest: Stage, case: Case) -> None:
    outcome = _judged(honest, case.id)
    assert outcome.outcome in ("held", "unsupported"), outcome.cause
