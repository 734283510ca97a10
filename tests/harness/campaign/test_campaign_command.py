"""The command: what it refuses, and what it says of a campaign that was played."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from killpoint.campaign import command, settings
from killpoint.campaign.item import Item
from killpoint.campaign.journal import Begun, Closed, Ended, Journal, Session
from killpoint.campaign.settings import Settings
from killpoint.campaign.worker_pool import LocalPool
from killpoint.cli import main
from killpoint.errors import BadUsage


def _played(folder: Path, word: str = "held") -> str:
    item = Item("R1/two-readers")
    settings.create(folder, Settings(only=["R1"]))
    with Journal(settings.journal_of(folder)) as journal:
        journal.add(Session(0.0, 1, 60.0))
        journal.add(Begun(0.1, item))
        journal.add(Ended(0.9, item.key, word, 0.8, 1, cause="the player died"))
        journal.add(Closed(60.0, "the budget is spent"))
    return str(folder)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["campaign"], "--budget TIME is missing"),
        (["campaign", "--budget", "9s", "--only", "R99"], "no invariant or case 'R99'"),
        (["campaign", "--budget", "9s", "--only", "R1", "--tier", "model"], "no case is of that"),
        (["campaign", "--budget", "9s", "--target", "nothing"], "unknown target 'nothing'"),
        (["campaign", "--resume", "PLAYED"], "its budget is spent; expected --budget"),
        (["campaign", "--resume", "PLAYED", "--seed", "3"], "--seed: a campaign that is resumed"),
        (["campaign", "--budget", "9s", "--out", "PLAYED"], "expected --resume"),
        (["campaign", "--resume", "nowhere"], "expected the folder of a campaign"),
    ],
)
def test_bad_usage_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    played = _played(tmp_path / "it")
    assert main([played if word == "PLAYED" else word for word in arguments]) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert said.count("\n") == 1


def test_a_whole_server_is_asked_what_a_check_asks_of_it() -> None:
    server = Settings("serve:refengine", only=["H7", "E6"])
    assert {case.invariant for case in server.cases()} == {"H7", "E6"}
    assert all("server" in case.needs for case in Settings("serve:refengine").cases())
    with pytest.raises(BadUsage, match="refengine is not asked H7"):
        Settings("refengine", only=["H7"]).cases()


@pytest.mark.parametrize(("target", "lanes"), [("serve:refengine", 1), ("refengine", 3)])
def test_of_whole_servers_one_is_played_at_a_time(target: str, lanes: int) -> None:
    with closing(command._worker_pool(Settings(target, jobs=3))) as pool:
        assert isinstance(pool, LocalPool)
        assert len(pool._lanes) == lanes


def test_a_campaign_that_is_being_played_is_not_played_by_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played = _played(tmp_path / "it")
    with settings.owned(tmp_path / "it"):
        assert main(["campaign", "--resume", played, "--budget", "9s"]) == 2
    assert "being played by another process" in capsys.readouterr().err


@pytest.mark.parametrize(("word", "status"), [("held", 0), ("infrastructure", 3)])
def test_its_status_tells_what_came_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str, status: int
) -> None:
    assert main(["campaign", "--status", _played(tmp_path / "it", word)]) == status
    said = capsys.readouterr().out
    assert f"1 {word}" in said
    assert "1 items, 1 plays, 0 findings in 1 min 0 s of 1 min 0 s" in said
    assert ("R1/two-readers@0: the player died" in said) == (word == "infrastructure")
