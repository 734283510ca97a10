"""The grid of parts, faults and phases: what it asks, when, and how it is shared out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import pytest
from reading import Reading

from killpoint.case import Case
from killpoint.cases import EVERY_CASE, SERVER_CASES, asked_of
from killpoint.invariants import BY_ID
from killpoint.judgement.judge import plan
from killpoint.progress.progress_state import Score
from killpoint.progress.text import span
from killpoint.runner.stage import Stage
from killpoint.scenario import Fault, dump, parse
from killpoint.search.case_run import CaseRun
from killpoint.systems.server.cases import FULL_CASES, IN_FULL
from killpoint.systems.server.generated import programs
from killpoint.systems.server.player import ServerPlayer
from killpoint.systems.server.plays.grid import FRONT, FULL_PLAYS, GRID_PARTS, GridPart, cell, grid
from killpoint.systems.server.plays.named import PLAYS, RARER_PLAYS, NamedPlay
from killpoint.systems.server.plays.plan import expected, told
from killpoint.systems.server.steps import ServerLine, ServerStart, ServerWaitRestarted
from killpoint.targets.registry import resolve

EXAMPLE = Path(__file__).parents[4] / "examples" / "plain_server.toml"
SAME = {
    "front-sigterm-in-decode": "sigterm-in-decode",
    "front-sigterm-in-prefill": "sigterm-in-prefill",
    "front-sigterm-while-starting": "sigterm-while-starting",
    "front-sigint-in-decode": "sigint-in-decode",
    "worker-stopped-20s-in-decode": "worker-stopped-20s",
    "replica-killed-in-decode": "replica-killed",
    "replica-stopped-in-decode": "replica-stopped",
    "coordinator-killed-in-decode": "coordinator-killed",
    "prefill-killed-in-decode": "prefill-killed",
    "api-server-killed-in-decode": "api-server-killed",
}
"""Cells, and the named plays that they are."""


def _faults(play: NamedPlay) -> list[tuple[str, str]]:
    return [(step.fault, step.role) for step in play.steps if isinstance(step, Fault)]


def _all_cells() -> dict[str, NamedPlay]:
    every = ("kill", "stop-20s", "stop", "sigterm", "sigint")
    phases = ("begun", "late", "idle", "prefill", "decode", "draining", "recovering")
    plays = (cell(part, fault, phase) for part in GRID_PARTS for fault in every for phase in phases)
    return {play.name: play for play in plays}


@pytest.mark.parametrize("play", FULL_PLAYS, ids=lambda play: cast("NamedPlay", play).name)
def test_a_play_under_full_is_a_file_and_is_judged(play: NamedPlay) -> None:
    scenario = play.scenario(play.judges[0])
    assert parse(dump(scenario), "x") == scenario
    for id in play.judges:
        assert "server" in (*BY_ID[id].needs, BY_ID[id].instead)


def test_names_are_unique_and_each_play_is_one_of_another_kind() -> None:
    plays = (*PLAYS, *FULL_PLAYS)
    assert len({play.name for play in plays}) == len(plays)
    told = [(play.topology, repr(play.steps)) for play in plays]
    assert len(set(told)) == len(told)
    assert len({case.id for case in EVERY_CASE}) == len(EVERY_CASE)


def test_cells_that_are_left_out_are_named_plays_with_the_same_fault() -> None:
    cells, named = _all_cells(), {play.name: play for play in (*PLAYS, *RARER_PLAYS)}
    mine = {play.name for play in grid()}
    for left_out, name in SAME.items():
        assert left_out not in mine
        assert _faults(cells[left_out]) == _faults(named[name])
        assert cells[left_out].topology == named[name].topology


@pytest.mark.parametrize("part", [part for part in GRID_PARTS if not part.briefly], ids=str)
def test_every_part_is_struck_by_every_fault_in_every_phase_that_can_be_judged(
    part: GridPart,
) -> None:
    word, front = part.word, part.part == FRONT
    mine = {play.name for play in (*grid(), *PLAYS, *RARER_PLAYS)} | set(SAME)
    phases = ("idle", "in-prefill", "in-decode", "while-recovering")
    for fault in ("killed", "stopped-20s", "stopped", "sigterm", "sigint"):
        for phase in phases:
            judged = not (front and fault == "stopped")
            assert (f"{word}-{fault}-{phase}" in mine) == judged
    for phase in ("while-starting", "late-in-start", "while-draining"):
        assert f"{word}-killed-{phase}" in mine


def test_a_server_that_starts_nothing_again_gets_a_hundred_kills_and_stops() -> None:
    """As vLLM: three topologies, and a part that dies ends it."""
    struck = {
        play.name
        for play in (*PLAYS, *FULL_PLAYS)
        if play.topology != "apart"
        and not any(isinstance(step, ServerWaitRestarted) for step in play.steps)
        and any(fault in ("kill", "stop") for fault, _ in _faults(play))
    }
    assert len(struck) >= 100


def test_the_grid_is_asked_under_full_alone_and_once() -> None:
    assert asked_of(server=True) == SERVER_CASES
    assert plan(server=True, full=True) == [*SERVER_CASES, *FULL_CASES]
    assert not {case.id for case in plan(["E1"], server=True)} & {case.id for case in FULL_CASES}
    assert [case.id for case in plan(["E8/front-killed-in-prefill"])] == [
        "E8/front-killed-in-prefill"
    ]
    assert not any(case.full for case in plan(full=True))


_RACE = next(case for case in SERVER_CASES if case.id == "E1/worker-killed-in-decode")


@pytest.mark.parametrize(
    ("case", "often"),
    [(FULL_CASES[-1], 1), (SERVER_CASES[0], 1), (_RACE, IN_FULL)],
    ids=["grid", "named", "race"],
)
def test_under_full_a_race_is_played_several_times(case: Case, often: int) -> None:
    player = Reading()
    case.run(CaseRun(case.id, player, seed=0, full=True, folder=None))
    assert len(player.played) == often


def test_a_shard_has_all_cases_of_a_play_or_none() -> None:
    shares = [plan(server=True, full=True, shard=(part, 5)) for part in range(1, 6)]
    assert sorted(case.id for share in shares for case in share) == sorted(
        case.id for case in plan(server=True, full=True)
    )
    plays = [{case.play or case.id for case in share} for share in shares]
    assert sum(len(each) for each in plays) == len(set[str]().union(*plays))
    assert max(map(len, shares)) < 1.2 * min(map(len, shares))


def test_a_play_that_waits_for_a_part_to_come_back_is_unsupported_of_who_promises_none(
    tmp_path: Path,
) -> None:
    play = _all_cells()["core-killed-while-recovering"]
    player = ServerPlayer(resolve(f"serve:{EXAMPLE}"), tmp_path)
    why = player.declines(play.scenario("E1"))
    assert why == "the target does not promise to start a part again"


def test_what_nothing_could_tell_of_is_not_played_and_the_same_play_is_for_others(
    tmp_path: Path,
) -> None:
    file = tmp_path / "server.toml"
    text = EXAMPLE.read_text("utf-8").replace("{here}", str(EXAMPLE.parent))
    unjudged = 'unjudged = { E2 = "its tokens are random" }\n[titles]'
    file.write_text(text.replace("[titles]", unjudged, 1), "utf-8")
    undisturbed = next(play for play in PLAYS if play.name == "undisturbed")
    with Stage(resolve(f"serve:{file}")) as stage:
        play = stage.play(undisturbed.scenario("E2"))
        [event] = play.history.events
        assert (event.kind, event.text("error")) == ("lacking", "its tokens are random")
        assert stage.play(undisturbed.scenario("E7")).history.first("ready") is not None


def test_what_is_asked_and_how_long_it_takes_is_told_before() -> None:
    spec = resolve(f"serve:{EXAMPLE}")
    one = [case for case in SERVER_CASES if case.play == "sigterm-in-decode"]
    assert told(spec, one, full=False).startswith("plain_server: 1 play, one after another, for 3")
    plain, full = (told(spec, plan(server=True, full=full), full=full) for full in (False, True))
    here = [play for play in PLAYS if play.topology == "tensor-parallel"]
    drawn = 1  # of the two dialogues that H7 draws one is with this topology
    assert plain.startswith(f"plain_server: {sum(play.often for play in here) + drawn} plays, ")
    assert "about " in plain
    under = [play for play in FULL_PLAYS if play.topology == "tensor-parallel"]
    # The example starts nothing again, names no paths, and has its drain unasked.
    lacking = (ServerWaitRestarted, ServerLine)
    able = [p for p in under if not p.asks_drain]
    once = [p for p in able if not any(isinstance(step, lacking) for step in p.steps)]
    often = sum(IN_FULL if play.races else play.often for play in here)
    drawn = programs(full=True)
    assert full.startswith(f"plain_server: {often + len(once) + drawn} plays, ")
    assert told(spec, plan(["Q6"]), full=False) == ""


@pytest.mark.parametrize("full", [False, True])
def test_the_time_left_is_that_of_the_plays_and_not_of_each_case(full: bool) -> None:
    spec = resolve(f"serve:{EXAMPLE}")
    cases = plan(server=True, full=full)
    score = Score(expected(spec, cases, full=full))
    assert f"about {span(score.left())} on" in told(spec, cases, full=full)
    sharing = [case for case in cases if case.play == "sigterm-in-decode"]
    of_one = expected(spec, sharing[:1], full=full)[sharing[0].id].seconds
    assert expected(spec, cases, full=full)[sharing[0].id].seconds == of_one / len(sharing)
    refused = next(case for case in cases if case.play == "replica-killed")
    assert expected(spec, [refused], full=full)[refused.id].seconds == 0


def test_a_start_that_is_struck_late_names_its_part() -> None:
    play = _all_cells()["worker-killed-late-in-start"]
    assert play.steps[0] == ServerStart("late", part="worker-0")


_ALONE = """\
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()


HTTPServer(("127.0.0.1", int(sys.argv[1])), Healthy).serve_forever()
"""


def test_a_start_without_parts_is_not_struck_and_not_waited_for(tmp_path: Path) -> None:
    server, file = tmp_path / "alone.py", tmp_path / "alone.toml"
    server.write_text(_ALONE, "utf-8")
    command = f'command = ["{sys.executable}", "{server}", "{{port}}"]'
    file.write_text(f'name = "alone"\nversion = "1"\nmodel = "m"\n{command}\n', "utf-8")
    case = next(case for case in SERVER_CASES if case.id == "E6/sigterm-while-starting")
    with Stage(resolve(f"serve:{file}")) as stage:
        outcome = CaseRun(case.id, stage, seed=0, full=False, folder=None).judge(case.run)
    told = "the tree has no part that is started before it serves; it has front"
    assert (outcome.outcome, outcome.cause) == ("unsupported", told)


def test_of_a_front_end_that_is_stopped_for_ever_no_request_is_owed_an_end() -> None:
    judged = {play.name: play.judges for play in grid()}
    assert judged["api-server-stopped-in-decode"] == ("E2", "E5")
    assert judged["replica-stopped-in-prefill"] == ("E1", "E4")
    assert judged["api-server-stopped-while-draining"] == ("E6", "E5")
