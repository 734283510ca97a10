"""Roles do the steps of a group, on real processes: what they log, and what can be done to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from killpoint.history.event import Event
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import (
    Barrier,
    Broadcast,
    Count,
    Fault,
    Gather,
    Join,
    Leave,
    MeasureMemory,
    Message,
    Point,
    ReceiveFrom,
    Scenario,
    SendTo,
    Wait,
    WaitBlocked,
)
from killpoint.targets.protocol import GroupShape

EXAMPLES = Path(__file__).parents[2] / "examples"
JOINED = [Join(), Wait(within=30.0)]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        with Stage("pipe_group:GroupTarget") as made:
            yield made


def played(stage: Stage, *steps: Any, ranks: int = 2, **more: Any) -> Play:
    scenario = Scenario("G1/x", ["G1"], list(steps), group=GroupShape(ranks=ranks), **more)
    play = stage.play(scenario)
    stage.forget(play)
    assert play.stalled == ""
    return play


def of(play: Play, kind: str, role: str) -> list[Event]:
    return list(play.history.of(kind, role=role))


def test_objects_keep_their_numbers_and_digests_on_the_way(stage: Stage) -> None:
    batch = [Message(repeat=2), Message("array", 5000)]
    play = played(
        stage,
        *JOINED,
        SendTo("rank-1", "rank-0", batch),
        ReceiveFrom(("rank-0",), "rank-1", 3, timeout=9.0),
        Broadcast("rank-0", [Message("nested", 90)], timeout=9.0),
        Gather(times=2, timeout=9.0),
        Wait(within=20.0),
    )
    sent = [(e.number("seq"), e.text("digest")) for e in of(play, "send-to", "rank-1")]
    came = [(e.number("seq"), e.text("digest")) for e in of(play, "got-from", "rank-0")]
    assert sent == came
    assert [number for number, _ in came] == [0, 1, 2]
    aired, heard = of(play, "broadcast", "rank-0")[0], of(play, "broadcast-done", "rank-1")[0]
    assert (aired.number("seq"), aired.text("digest")) == (3, heard.text("digest"))
    gathered = [e.data["seqs"] for e in of(play, "gathered", "rank-1")]
    assert gathered == [[4, 6], [5, 7]]
    assert gathered == [e.data["seqs"] for e in of(play, "gathered", "rank-0")]


def test_a_failed_call_is_logged_with_its_words_and_ends_the_step(stage: Stage) -> None:
    play = played(
        stage,
        *JOINED,
        Barrier(("rank-0",), times=3, timeout=0.2),
        ReceiveFrom(("rank-1",), "rank-0", 2, timeout=0.1, keep_on=True),
        Wait(within=9.0),
    )
    done = of(play, "barrier-done", "rank-0")
    assert [(e.text("outcome"), "rank 1" in e.text("error")) for e in done] == [("timeout", True)]
    assert len(of(play, "got-from", "rank-1")) == 2


def test_who_is_no_member_calls_nothing(stage: Stage) -> None:
    play = played(stage, *JOINED, Leave(), Barrier(), Wait(within=9.0))
    assert [e.text("outcome") for e in of(play, "barrier-done", "rank-0")] == ["no-member"]


def test_a_kill_strikes_at_a_line_of_a_groups_call(stage: Stage) -> None:
    def waited(step: Any) -> Play:
        steps = [step, Barrier(("rank-0",), timeout=3.0), WaitBlocked(("rank-0",))]
        return played(stage, *JOINED, *steps, Barrier(("rank-1",)), Wait(within=9.0))

    counted = waited(Count("rank-1", Point("barrier")))
    lines = counted.history.first("lines", role="rank-1")
    assert lines is not None
    assert lines.number("count") > 5
    killed = waited(Fault("kill", "rank-1", Point("barrier", line=2)))
    assert killed.unreached == []
    assert "rank 1 died" in of(killed, "barrier-done", "rank-0")[0].text("error")


def test_a_clock_jumps_between_two_calls_and_inside_one(stage: Stage) -> None:
    between = played(stage, *JOINED, Fault("jump-clock", "rank-1", hours=-2.0), Barrier(), Wait())
    assert [e.data["s"] for e in of(between, "jumped", "rank-1")] == [pytest.approx(-7200.0)]
    at = Point("barrier", line=1)
    inside = played(stage, *JOINED, Fault("jump-clock", "rank-0", at, hours=2.0), Barrier(), Wait())
    assert [e.data["s"] for e in of(inside, "jumped", "rank-0")] == [pytest.approx(7200.0)]


def test_roles_are_weighed_where_a_scenario_says_so(stage: Stage) -> None:
    play = played(stage, *JOINED, MeasureMemory(("rank-1",)))
    weights = [(e.text("target"), e.number("rss") > 1 << 20) for e in play.history.of("weight")]
    assert weights == [("rank-1", True)]


def test_the_secret_of_a_play_is_in_none_of_its_records(stage: Stage, tmp_path: Path) -> None:
    scenario = Scenario("G1/x", ["G1"], [*JOINED, Barrier(), Wait()], group=GroupShape(ranks=2))
    play = stage.play(scenario)
    record = b"".join(path.read_bytes() for path in play.folder.rglob("*.jsonl"))
    stage.forget(play)
    assert b"join" in record
    assert b"secret" not in record


def test_after_everybodys_death_a_second_group_meets(stage: Stage) -> None:
    kills = [Fault("kill", role) for role in ("rank-0", "rank-1")]
    play = played(stage, *JOINED, *kills, restart=True)
    ends = [e.text("outcome") for e in of(play, "end", "rank-1") if e.text("op") == "barrier"]
    assert ends == ["ok"]
    assert play.ledger.empty()


def test_an_address_that_the_machine_lacks_is_the_plays_trouble_not_the_targets() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        with Stage("pipe_group:GroupTarget") as stage:
            shape = GroupShape(ranks=2, host="192.0.2.1")
            play = stage.play(Scenario("G1/x", ["G1"], [*JOINED], group=shape))
    assert "192.0.2.1" in play.stalled
