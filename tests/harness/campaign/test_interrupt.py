"""A campaign that is interrupted and resumed plays each item once, and leaves nothing behind."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from campaign_process import CampaignProcess, wait_for

from killpoint.cli import main

_ONLY = "R1/two-readers,R4/full-ring,Q2,Q6/writer-dies-after-overflow-marker"
_FAULTY = "mutated:r1_flags_reset_after_publication"


@pytest.mark.full
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted_and_resumed_it_loses_nothing_and_plays_nothing_twice(
    tmp_path: Path, by: signal.Signals
) -> None:
    with CampaignProcess(tmp_path / "it") as campaign:
        first = campaign.begin(
            *("--budget", "5m", "--target", _FAULTY, "--only", _ONLY),
            *("--jobs", "2", "--out", str(campaign.folder)),
        )
        wait_for("three items", lambda: len(campaign.ended()) >= 3)
        status, _, said = campaign.interrupt(first, by)
        before = campaign.ended()
        wait_for("the end of every process", lambda: campaign.processes() == [], within=15.0)
        if by != signal.SIGKILL:
            assert status == 128 + by
            assert f"killpoint campaign --resume {campaign.folder}" in said
            assert campaign.unaccounted() == {}
        second = campaign.begin("--resume", str(campaign.folder))
        wait_for("three more", lambda: len(campaign.ended()) >= len(before) + 3)
        status, out, _ = campaign.interrupt(second)
        assert (status, "R1/two-readers:bad-transition" in out) == (130, True)
        ended = campaign.ended()
        assert ended[: len(before)] == before
        assert len(ended) == len(set(ended))
        left = campaign.unaccounted()
        assert left == {} if by != signal.SIGKILL else set(left.values()) == {1}
        wait_for("the end of every process", lambda: campaign.processes() == [], within=15.0)


@pytest.mark.full
def test_a_player_whose_campaign_was_killed_does_not_play_on(tmp_path: Path) -> None:
    with CampaignProcess(tmp_path / "it") as campaign:
        long = ("--only", "E3", "--jobs", "1")  # the better part of a minute
        process = campaign.begin("--budget", "9m", *long, "--out", str(campaign.folder))
        wait_for("its engine", lambda: len(campaign.processes()) >= 6)
        campaign.interrupt(process, signal.SIGKILL)
        wait_for("the end of every process", lambda: campaign.processes() == [], within=15.0)


@pytest.mark.full
def test_a_campaign_ends_in_time_and_its_findings_replay(tmp_path: Path) -> None:
    folder = tmp_path / "it"
    with CampaignProcess(folder) as campaign:
        only = f"{_ONLY},R7"
        process = campaign.begin(
            *("--budget", "20s", "--target", _FAULTY, "--only", only, "--out", str(folder))
        )
        out, _ = process.communicate(timeout=20 + 10)
        assert process.returncode == 1
        assert "killpoint replay" in out
        assert campaign.unaccounted() == {}
        for found in (folder / "findings").glob("R1-*/*.toml"):
            assert main(["replay", str(found)]) == 1
        assert list((folder / "findings").glob("R1-*/*.toml")) != []
