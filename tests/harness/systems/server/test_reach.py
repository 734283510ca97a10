"""``killpoint bench reach``: which findings have a play, how one is told, and one is played."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from killpoint.bench.recovery import reach_show
from killpoint.bench.recovery.aftermath import Aftermath, FrontExit, Health, Left
from killpoint.bench.recovery.reach import REACHES, Call, Reached, chosen
from killpoint.bench.recovery.run import Server
from killpoint.cli import main
from killpoint.errors import BadUsage
from killpoint.findings.registry import findings
from killpoint.scenario.playable import unplayable

EXAMPLE = Path(__file__).parents[3] / "examples" / "plain_server.toml"


def test_each_play_is_of_a_finding_and_can_be_played() -> None:
    for reach in REACHES:
        assert reach.finding in findings(), reach.finding
        assert list(unplayable(reach.scenario(0))) == [], reach.finding


def test_each_finding_that_bites_in_vllm_has_a_play() -> None:
    biting = {
        id
        for id, entry in findings().items()
        if entry.impact == "bites" and not entry.fixed and entry.projects[0] != "sglang"
    }
    assert biting <= {reach.finding for reach in REACHES}


def test_an_unknown_finding_is_refused() -> None:
    with pytest.raises(BadUsage, match="no play of a finding 'x'; expected one of: late-replies"):
        chosen(["x"])


def _reached(**ends: int) -> Reached:
    after = Aftermath(
        fault="call",
        part="front",
        noticed_s=1.0,
        noticed_by="an error",
        health=[Health(0.0, 200)],
        ready=[],
        in_flight=dict(ends),
        later={"whole": 3, "open": 12},
        stalls_s=[1.0],
        silence_s=1.0,
        whole_s=None,
        end=None,
        left=Left(),
        looked_s=15.0,
    )
    return Reached(
        server="serve:a",
        finding="late-replies",
        after=after,
        first_s=1.0,
        calls=[Call(0.5, "error", "500 timed out")],
        end=FrontExit(3.0, code=0),
        left=["worker-0"],
        files=2,
    )


def test_a_finding_reaches_a_client_if_a_request_did_not_end_whole() -> None:
    assert _reached(hang=1, whole=11).reaches
    assert _reached(whole=12).reaches  # the call that its workers ought to answer was not
    answered = msgspec.structs.replace(_reached(whole=12), calls=[Call(0.5, "whole")])
    assert not answered.reaches
    assert msgspec.structs.replace(_reached(open=1), calls=[]).reaches  # in all that time
    assert not Reached(server="serve:a", finding="late-replies").reaches


def test_the_page_tells_what_was_done_and_what_came_of_it() -> None:
    page = reach_show.markdown([_reached(error=12)], [Server("serve:a", "a", "1")], "killpoint x")
    assert "## `late-replies` reaches a client" in page
    assert (
        "- in flight: 12 error; later: 3 whole, 12 open to the end; the first after 1.0 s" in page
    )
    assert "- a call of all workers ended after 0.5 s: error (500 timed out)" in page
    assert "- the server: status 0 after 3.0 s" in page
    assert "- at the end: worker-0, 0.0 MiB of shared memory, 2 files" in page
    told = json.loads(reach_show.json([_reached(error=12)], [Server("serve:a", "a", "1")]))
    assert told["reached"][0]["first_s"] == 1.0


def test_one_is_played_on_a_small_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "reach.md"
    command = ["bench", "reach", "--target", f"serve:{EXAMPLE}"]
    assert main([*command, "--findings", "late-replies,orphan-core", "--markdown", str(file)]) == 0
    told = capsys.readouterr().out
    assert "the target names no call 'accepted'" in told
    assert "the server: SIGKILL after " in told
    assert "1 of 2 reach a client" in told
    assert "## `orphan-core` reaches a client" in file.read_text()
