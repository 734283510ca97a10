"""Plays that strike a part at a line of the server's own code, and what such a strike tells."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from killpoint.runner.stage import Play, Stage
from killpoint.scenario import AnyStep, Fault, Scenario
from killpoint.systems.server.cases import FULL_CASES
from killpoint.systems.server.environments.line_fault import PLUGIN
from killpoint.systems.server.plays.lines import PATHS, line_plays
from killpoint.systems.server.plays.named import NamedPlay
from killpoint.systems.server.plays.plan import told
from killpoint.systems.server.steps import (
    ServerControl,
    ServerLine,
    ServerLoad,
    ServerPhase,
    ServerShape,
    ServerStart,
    ServerStop,
    ServerWaitAlive,
    ServerWaitGone,
)
from killpoint.targets.registry import resolve

EXAMPLE = Path(__file__).parents[4] / "examples" / "plain_server.toml"
LINES = f"""
[lines.tick]
part = "worker"
module = "plain_server"
function = "work"

[lines.end]
part = "front"
module = "plain_server"
function = "end"

[environment]
PYTHONPATH = "{PLUGIN}"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The example, told which paths its code has, and where the plugin lies that it loads."""
    folder = tmp_path_factory.mktemp("server")
    file = folder / "lined.toml"
    file.write_text(EXAMPLE.read_text().replace("{here}", str(EXAMPLE.parent)) + LINES)
    return f"serve:{file}"


def _played(spec: str, line: ServerLine) -> Play:
    up = [ServerStart(), ServerControl(), ServerLoad(), ServerPhase("decode")]
    steps = [*up, line, ServerWaitAlive(5.0), ServerWaitGone(10.0)]
    scenario = Scenario("E5/x", ["E5"], steps, server=ServerShape())
    with Stage(resolve(spec)) as stage:
        return stage.play(scenario)


@pytest.mark.parametrize("along", [0.0, pytest.param(1.0, marks=pytest.mark.full)])
def test_a_part_dies_at_a_line_of_its_own_and_the_record_names_it(
    along: float, server: str
) -> None:
    play = _played(server, ServerLine("tick", along))
    assert (play.stalled, play.unreached) == ("", [])
    fault, struck = play.history.first("fault"), play.history.first("struck")
    assert fault is not None
    assert struck is not None
    assert (fault.text("target"), struck.text("target")) == ("worker-0", "worker-0")
    where = fault.text("where")
    number = int(where.removeprefix("plain_server.py:").partition(" ")[0])
    text = (EXAMPLE.parent / "plain_server.py").read_text().splitlines()[number - 1].strip()
    # The first that it passed before answers were in their midst, or the last.
    assert (
        text
        == ('while os.read(asks, 1) or LIE == "orphans":', 'os.write(ticks, b".")')[along == 1.0]
    )
    assert where.endswith(" in work")


def test_a_line_that_is_passed_as_the_server_ends(server: str) -> None:
    play = _played(server, ServerLine("end", first="sigterm"))
    assert (play.stalled, play.unreached) == ("", [])
    assert [e.text("fault") for e in play.history.of("fault")] == ["sigterm", "kill"]
    assert [e.text("target") for e in play.history.of("fault")] == ["front", "front"]


@pytest.mark.full
def test_a_line_that_nobody_comes_to_strikes_nobody(server: str) -> None:
    play = _played(server, ServerLine("end", within=0.5))
    assert play.unreached == ["no front came to its line of end"]


def test_a_phase_that_its_clients_do_not_come_to_says_whether_the_server_had_ended() -> None:
    ends: list[AnyStep] = [Fault("kill", "core-0"), ServerWaitGone(10.0)]
    up = [ServerStart(), *ends, ServerLoad(), ServerPhase("decode", within=5.0)]
    with Stage(resolve(f"serve:{EXAMPLE}")) as stage:
        play = stage.play(Scenario("E5/x", ["E5"], up, server=ServerShape()))
        late = [ServerStart(), ServerPhase("decode", within=0.1), ServerStop(), ServerWaitGone()]
        other = stage.play(Scenario("E5/x", ["E5"], late, server=ServerShape()))
    assert play.unreached == ["the clients were not in decode: the server had ended"]
    assert other.unreached == ["the clients were not in decode within 0.1 s"]


def test_a_server_without_that_path_is_not_asked() -> None:
    play = _played(f"serve:{EXAMPLE}", ServerLine("tick"))
    lacking = play.history.first("lacking")
    assert lacking is not None
    assert lacking.text("error") == "the target names no path 'tick' of its code"


PLAYS = list(line_plays())


def test_each_path_is_struck_at_three_lines() -> None:
    assert len(PLAYS) == 3 * len(PATHS)
    assert len({play.name for play in PLAYS}) == len(PLAYS)
    along = {
        play.name: [step.along for step in play.steps if isinstance(step, ServerLine)]
        for play in PLAYS
    }
    assert sorted(along.values()) == sorted([[0.0], [0.5], [1.0]] * len(PATHS))


@pytest.mark.parametrize("play", PLAYS, ids=lambda play: cast("NamedPlay", play).name)
def test_a_server_that_names_no_paths_is_not_asked_nor_waited_for(play: NamedPlay) -> None:
    cases = [case for case in FULL_CASES if case.play == play.name]
    assert [case.id for case in cases] == [f"{id}/{play.name}" for id in play.judges]
    assert told(f"serve:{EXAMPLE}", cases, full=True) == ""
