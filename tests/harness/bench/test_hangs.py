"""The score of looks: what counts as right, and how it is told."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from synthetic import Tape

from killpoint.bench import machine
from killpoint.bench.hangs import show
from killpoint.bench.hangs.kinds import HEALTHY, KINDS, chosen, healthy
from killpoint.bench.hangs.run import Looked, Missed, Says, Score, score, verdict
from killpoint.bench.recovery.run import Server
from killpoint.cli import main
from killpoint.errors import BadUsage
from killpoint.progress.counting import quiet
from killpoint.runner.stage import Play
from killpoint.scenario import Scenario
from killpoint.scenario.playable import unplayable

EXAMPLE = Path(__file__).parents[2] / "examples" / "plain_server.toml"


def test_every_kind_can_be_played() -> None:
    for kind in (*KINDS, healthy(50)):
        assert list(unplayable(kind.scenario(0))) == [], kind.name


@pytest.mark.parametrize(
    ("named", "blames", "unsure", "says"),
    [
        ("worker-0", True, True, "right"),
        ("core-0", True, False, "wrong"),
        ("", True, False, "wrong"),
        ("", False, True, "cannot-tell"),
        ("", False, False, "clear"),
    ],
)
def test_a_look_at_a_hang_is_right_if_it_names_who_was_struck(
    named: str, blames: bool, unsure: bool, says: Says
) -> None:
    told = verdict(named, ("worker-0",), blames=blames, unsure=unsure, kind="worker-stopped")
    assert told == says


def test_a_look_at_a_healthy_tree_is_wrong_if_it_blames_anybody() -> None:
    assert verdict("core-0", (), blames=True, unsure=False, kind=HEALTHY) == "wrong"
    assert verdict("", (), blames=False, unsure=True, kind=HEALTHY) == "cannot-tell"


def test_an_unknown_kind_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(BadUsage, match="no kind of hang 'nap'; expected one of: worker-stopped"):
        chosen(["nap"])


class _Survivor:
    """Player of a server that comes through a hang in these plays, and hangs in the others."""

    def __init__(self, survives: Callable[[int], bool]) -> None:
        self._survives = survives
        self.plays = 0

    def __enter__(self) -> "_Survivor":
        return self

    def __exit__(self, *_: object) -> None: ...

    def play(self, scenario: Scenario) -> Play:
        del scenario
        survives = self._survives(self.plays)
        self.plays += 1
        tape = Tape().tell("driver", "struck", target="front")
        if not survives:
            tape.tell("driver", "inspected", part="front", says="pid 7 has no descriptor", ms=500)
        unreached = ["no client waited"] if survives else []
        found = SimpleNamespace(history=tape.history(), unreached=unreached, unable="", stalled="")
        return cast(Play, found)

    def forget(self, play: Play) -> None:
        del play


@pytest.mark.parametrize(
    ("survives", "plays", "hung"),
    [(lambda n: n % 2 == 0, 6, 3), (lambda _: True, 3, 0), (lambda _: False, 3, 3)],
    ids=["now-and-then", "always", "never"],
)
def test_a_hang_that_a_server_may_come_through_is_played_until_it_hung_so_often(
    survives: Callable[[int], bool], plays: int, hung: int
) -> None:
    player = _Survivor(survives)
    kinds = chosen(["front-out-of-descriptors"])
    server = Server("serve:a", "a", "1")
    run = score([(server, "serve:a")], kinds, 3, 0, 0, quiet, lambda _: player)
    assert (player.plays, len(run.looked), run.failures()) == (plays, hung, [])
    assert ("more did not hang" in show.text(run)) is (0 < hung < plays)


def _score() -> Score:
    spec, kind = "serve:a", "worker-stopped"
    looked = [
        *[Looked(spec, kind, "right", "worker-0", "pid 7 is stopped", 0.5)] * 3,
        Looked(spec, kind, "wrong", "core-0", "pid 6 is at work", 1.5),
        *[Looked(spec, HEALTHY, "clear", "", "", 0.4)] * 9,
        Looked(spec, HEALTHY, "wrong", "core-0", "pid 6 is dead", 0.6),
    ]
    missed = [
        Missed(spec, "core-spins", "it has no such thing: the target names no path 'step'"),
        Missed(spec, "worker-spins", "no worker came to its line"),
    ]
    kinds = [kind, "core-spins"]
    return Score(machine.look(), [Server(spec, "a", "1")], kinds, looked, missed, 4, 60.0)


def test_the_score_tells_each_kind_and_what_was_not_right() -> None:
    told = show.text(_score())
    assert "  serve:a: 3 of 4 (1 wrong), 0.5 s, at most 1.5 s" in told
    assert "not looked at: it has no such thing: the target names no path 'step'" in told
    assert "3 of 4 hangs (75.0 %): the process to blame is named first" in told
    assert "10 looks at healthy trees under load: 1 blamed somebody, 9 all clear" in told
    assert "wrong: worker-stopped on serve:a: wrong: pid 6 is at work" in told
    assert _score().failures() == ["worker-spins on serve:a: no worker came to its line"]


def test_the_page_has_the_command_and_a_row_for_each_kind() -> None:
    page = show.markdown(_score(), "killpoint bench inspect")
    assert "$ killpoint bench inspect\n" in page
    assert "| a worker is stopped | 3 of 4 (1 wrong), 0.5 s, at most 1.5 s |" in page
    assert "- worker-stopped, `serve:a`: wrong: pid 6 is at work" in page


def test_the_json_has_every_look() -> None:
    told = json.loads(show.json(_score()))
    assert told["schema"] == 1
    assert len(told["looked"]) == 14


def test_a_small_server_is_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, server = tmp_path / "score.md", tmp_path / "patient.toml"
    # A look may take longer on a busy machine than this server waits for a stopped worker.
    patient = 'environment = { PLAIN_SILENCE = "60" }\n[titles]'
    text = EXAMPLE.read_text().replace("{here}", str(EXAMPLE.parent))
    server.write_text(text.replace("[titles]", patient))
    command = ["bench", "inspect", "--target", f"serve:{server}", "--markdown", str(file)]
    kinds = "worker-stopped,worker-spins"
    assert main([*command, "--kinds", kinds, "--each", "2", "--healthy", "2"]) == 0
    told = capsys.readouterr().out
    assert "5 of 5 hangs (100.0 %): the process to blame is named first" in told
    assert "2 looks at healthy trees under load: 0 blamed somebody" in told
    assert "the target names no path 'run' of its code" in told
    assert "| a worker is stopped | 5 of 5, " in file.read_text()
