"""A campaign on a Ray cluster: a worker is killed, the campaign interrupted, nothing is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from campaign_process import CampaignProcess, wait_for
from local_cluster import local_cluster

from killpoint.campaign.findings import Findings
from killpoint.campaign.journal import GivenBack
from killpoint.cli import main

_FAULTY = "mutated:r1_flags_reset_after_publication"
_ONLY = "R1/two-readers,R4/full-ring,Q2"


@pytest.mark.full
def test_a_cluster_loses_a_worker_and_the_campaign_loses_nothing(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra killpoint[ray] is not installed")
    with (
        local_cluster() as cluster,
        CampaignProcess(tmp_path / "it", RAY_ADDRESS="") as campaign,
    ):
        first = campaign.begin(
            *("--budget", "10m", "--target", _FAULTY, "--only", _ONLY),
            *("--ray", cluster.address, "--out", str(campaign.folder)),
        )
        wait_for("an item", lambda: campaign.ended() or first.poll() is not None, within=180.0)
        wait_for("a worker that plays", cluster.playing)
        os.kill(cluster.playing()[0], signal.SIGKILL)
        wait_for("the loss in the journal", lambda: _lost(campaign) != [])
        (lost,) = _lost(campaign)
        wait_for("its end, begun again", lambda: lost.key in campaign.ended())
        status, _, said = campaign.interrupt(first)
        assert (status, "--resume" in said, campaign.unaccounted()) == (130, True, {})
        assert f"lost, begun again: {lost.key}" in said
        before = campaign.ended()
        wait_for("the end of every player", lambda: cluster.players() == [], within=30.0)

        second = campaign.begin("--resume", str(campaign.folder))
        wait_for("more", lambda: len(campaign.ended()) >= len(before) + 4, within=180.0)
        status, out, _ = campaign.interrupt(second, signal.SIGTERM)
        assert (status, "R1/two-readers:bad-transition" in out) == (143, True)
        ended = campaign.ended()
        assert (ended[: len(before)], len(set(ended))) == (before, len(ended))
        assert campaign.unaccounted() == {}
        wait_for("the end of every player", lambda: cluster.players() == [], within=30.0)
        assert [
            pid for pid, said in cluster.processes() if "raylet" in said
        ] != []  # it is not ours
    (found,) = [f for f in Findings(campaign.folder / "findings").all() if f.case.id[:2] == "R1"]
    assert len({sight.key for sight in found.seen}) == len(found.seen)
    assert found.replay is not None
    assert main(["replay", str(found.replay)]) == 1


@pytest.mark.full
def test_a_cluster_that_is_not_there_is_told_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ray", reason="the extra killpoint[ray] is not installed")
    with CampaignProcess(tmp_path / "it", RAY_ADDRESS="") as campaign:
        process = campaign.begin("--budget", "9s", "--ray", "auto", "--out", str(campaign.folder))
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err.count("\n")) == (70, 1)
        assert err.startswith("--ray auto: ")


def _lost(campaign: CampaignProcess) -> list[GivenBack]:
    entries = [entry for entry in campaign.entries() if isinstance(entry, GivenBack)]
    return [entry for entry in entries if entry.why == "lost"]
