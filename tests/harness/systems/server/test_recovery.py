"""``killpoint bench recovery``: how a run is told, and two faults of a small server, measured."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from killpoint.bench.machine import Machine
from killpoint.bench.recovery import plot, show
from killpoint.bench.recovery.aftermath import Aftermath, FrontExit, Health, Left
from killpoint.bench.recovery.faults import ROWS, chosen, scenario
from killpoint.bench.recovery.run import Measured, Recovery, Server, measure
from killpoint.cli import main
from killpoint.errors import BadUsage
from killpoint.progress.counting import quiet
from killpoint.runner.stage import Play
from killpoint.scenario import Scenario

EXAMPLE = Path(__file__).parents[3] / "examples" / "plain_server.toml"
_MACHINE = Machine(2, "a processor", "6.1", "3.11.7", 1 << 30, (0.1, 0.1, 0.1))


def _after(**more: object) -> Aftermath:
    facts: dict[str, object] = {
        "fault": "kill",
        "part": "worker-0",
        "noticed_s": 0.3,
        "noticed_by": "an error",
        "health": [Health(0.0, 200), Health(0.4, 503), Health(6.2, 0)],
        "ready": [],
        "in_flight": {"error": 11, "truncated": 1},
        "later": {"refused": 40},
        "stalls_s": [0.5, 6.0],
        "silence_s": 5.9,
        "whole_s": None,
        "end": FrontExit(6.1, code=0),
        "left": Left(0, 0, 12),
        "looked_s": 20.0,
    }
    return Aftermath(**facts | more)  # pyright: ignore[reportArgumentType]


def _run(*measured: Measured) -> Recovery:
    servers = [Server("serve:a", "a", "1"), Server("serve:b", "b", "2")]
    return Recovery(_MACHINE, servers, list(measured), 4)


RUN = _run(
    Measured("serve:a", "worker-killed", 0, 20.0, _after()),
    Measured(
        "serve:b",
        "worker-killed",
        0,
        20.0,
        _after(
            health=[Health(0.0, 200)],
            ready=[Health(0.0, 200), Health(0.1, 503), Health(2.0, 200)],
            in_flight={"whole": 12},
            later={"whole": 3},
            silence_s=0.4,
            whole_s=2.1,
            end=None,
            left=Left(),
        ),
    ),
    Measured("serve:a", "coordinator-killed", 0, 1.0, None, "it has no such thing: no coordinator"),
    Measured("serve:b", "coordinator-killed", 0, 1.0, None, "the server was not ready"),
)


def test_the_truth_table_says_of_each_server_what_it_said_and_what_was_so() -> None:
    table = show.markdown(RUN, "killpoint bench recovery --markdown t.md").splitlines()
    (a,) = [line for line in table if line.startswith("| `serve:a` | 200")]
    (b,) = [line for line in table if line.startswith("| `serve:b` | 200")]
    assert a == (
        "| `serve:a` | 200, 503 after 0.4 s, no answer after 6.2 s | none for 5.9 s |"
        " status 0 after 6.1 s | 11 error, 1 cut short as if whole | 40 refused |"
    )
    assert b == (
        "| `serve:b` | 200 throughout; ready: 200, 503 after 0.1 s, 200 after 2.0 s |"
        " goes on; as before after 2.1 s | lives | 12 whole | 3 whole |"
    )
    assert "| `serve:a` | it has no such thing: no coordinator |  |  |  |  |" in table
    assert "## A worker is killed" in table


def test_a_server_that_is_gone_at_once_makes_no_progress() -> None:
    gone = _after(silence_s=0.2, end=FrontExit(0.1, signal=9), looked_s=0.4)
    table = show.markdown(_run(Measured("serve:a", "front-killed", 0, 5.0, gone)), "")
    assert " | none once it has ended | SIGKILL after 0.1 s | " in table


def test_figures_stand_side_by_side_and_what_was_not_measured_is_no_failure_if_it_is_lacking() -> (
    None
):
    told = show.text(RUN)
    assert "serve:a: noticed 0.3 s, of 12 in flight 11 error, 1 cut short as if whole" in told
    assert "stall p50 3.2 p99 5.9, as before never, left 12 files" in told
    assert RUN.failures() == ["coordinator-killed on serve:b: the server was not ready"]


def test_a_run_that_is_interrupted_tells_what_it_has_and_what_it_has_not() -> None:
    class Interrupted:
        def __init__(self, spec: str) -> None:
            del spec

        def __enter__(self) -> Interrupted:
            return self

        def __exit__(self, *_: object) -> None: ...

        def play(self, scenario: Scenario) -> Play:
            del scenario
            raise KeyboardInterrupt

        def forget(self, play: Play) -> None: ...

    servers = [(Server("serve:a", "a", "1"), "serve:a")]
    found = measure(servers, ROWS[:2], 2, 0, quiet, Interrupted)
    assert found.measured == []
    assert found.failures() == ["4 were not begun: it was interrupted"]


def test_the_picture_is_well_formed_and_has_a_row_for_each_fault() -> None:
    picture = ElementTree.fromstring(plot.svg(RUN))
    texts = [each.text or "" for each in picture.iter() if each.tag.endswith("text")]
    assert {"worker-killed", "coordinator-killed", "serve:a", "12/12", "0/12"} <= set(texts)
    assert texts.count("not measured") == 2


def test_each_fault_is_a_play_and_there_are_at_least_a_dozen() -> None:
    assert len({repr(scenario(row, 0).steps) + scenario(row, 0).case for row in ROWS}) == len(ROWS)
    assert len(ROWS) >= 12
    assert [row.name for row in chosen(["sigterm", "core-killed"])] == ["core-killed", "sigterm"]
    with pytest.raises(BadUsage, match="no fault 'corekilled'; expected one of: worker-killed,"):
        chosen(["corekilled"])


def test_one_command_measures_writes_the_table_the_picture_and_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("r.json", "t.md", "p.svg")]
    asked = [
        f"--{what}={file}" for what, file in zip(("json", "markdown", "plot"), files, strict=True)
    ]
    spec = f"serve:{EXAMPLE}"
    faults = "worker-killed,front-killed,coordinator-killed"
    assert main(["bench", "recovery", "--target", spec, "--faults", faults, *asked]) == 0
    assert "front-killed: the front is killed" in capsys.readouterr().out
    told = json.loads(files[0].read_text("utf-8"))
    assert told["schema"] == 1
    rows = {each["fault"]: each for each in told["measured"]}
    assert rows["coordinator-killed"]["after"] is None
    killed, front = rows["worker-killed"]["after"], rows["front-killed"]["after"]
    assert killed["noticed_s"] < 3
    assert killed["end"]["code"] == 1
    assert sum(killed["in_flight"].values()) == killed["in_flight"]["error"] == 12
    assert front["end"]["signal"] == 9
    assert front["noticed_s"] < 1
    assert "| SIGKILL after 0." in files[1].read_text("utf-8")
    assert "worker-killed" in files[2].read_text("utf-8")
