"""Roles do the steps of a group, on real processes: what they log, and what can be done to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from killpoint.checkers import CHECKERS
from killpoint.history.event import Event
from killpoint.runner.stage import Play, Stage
from killpoint.scenario import (
    Barrier,
    Broadcast,
    Count,
    Fault,
    Gather,
    GroupRejoin,
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
from killpoint.systems.group.record import calls
from killpoint.targets.protocol import GroupShape

EXAMPLES = Path(__file__).parents[3] / "examples"
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


def test_calls_beside_wait_at_once_each_in_a_thread_of_its_own() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        with Stage("pipe_group:ThreadsTarget") as stage:
            play = played(
                stage,
                *JOINED,
                ReceiveFrom(("rank-0",), "rank-1", timeout=9.0, beside=True),
                Broadcast("rank-1", [Message()], ("rank-0",), timeout=9.0, beside=True),
                Barrier(("rank-0",), timeout=9.0, beside=True),
                Wait(),
                SendTo("rank-0", "rank-1", [Message()]),
                Wait(),
                Barrier(("rank-1",), timeout=9.0, beside=True),
                Broadcast("rank-1", [Message()], ("rank-1",), timeout=9.0, beside=True),
                SendTo("rank-1", "rank-0", [Message()]),
                GroupRejoin(),
                Wait(),
            )
    begun = [of(play, kind, "rank-0")[0] for kind in ("receive-from", "broadcast", "barrier")]
    (sent,) = of(play, "sent-to", "rank-0")
    ends = ("got-from", "broadcast-done", "barrier-done")
    ended = [of(play, kind, "rank-0")[0] for kind in ends]
    assert max(event.t for event in begun) < sent.t < min(event.t for event in ended)
    assert [event.number("thread") for event in (*begun, *ended)] == [1, 2, 3, 1, 2, 3]
    assert [event.text("outcome") for event in ended] == ["ok"] * 3
    assert "thread" not in sent.data
    (aired,), (came,) = of(play, "broadcast", "rank-1"), of(play, "barrier", "rank-1")
    assert (aired.number("thread"), came.number("thread")) == (-1, 1)
    found = [call for call in calls(play.history) if call.role == "rank-0"]
    assert [call.op for call in found if call.ok and call.thread] == [
        "receive-from",
        "broadcast",
        "barrier",
    ]


@pytest.mark.parametrize(
    ("target", "kinds"), [("pipe_group:ThreadsTarget", []), ("broken_groups:WakesOne", ["late"])]
)
def test_news_that_wake_one_thread_alone_are_told(
    target: str, kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    waits = [
        ReceiveFrom(("rank-0",), source, timeout=3.0, beside=True)
        for source in ("rank-1", "rank-2")
    ]
    with Stage(target) as stage:
        play = played(
            stage,
            *(*JOINED, *waits, Wait()),
            *(SendTo("rank-2", "rank-0", [Message()]), GroupRejoin(), Wait()),
            ranks=3,
        )
    found = CHECKERS["H2"](play.scenario, play.history, play.ledger).violations
    assert [violation.kind for violation in found] == kinds
    assert all("receive from rank-2 ended" in violation.cause for violation in found)


def test_no_call_is_made_beside_another_where_that_is_not_promised(stage: Stage) -> None:
    for step in (
        ReceiveFrom(("rank-0",), "rank-1", timeout=0.1, beside=True),
        Gather(roles=("rank-0",), timeout=0.1, beside=True),
    ):
        play = played(stage, *JOINED, step, Wait())
        verb = "gather" if isinstance(step, Gather) else "receive-from"
        (end,) = (event for event in of(play, "end", "rank-0") if event.text("op") == verb)
        assert end.text("outcome") == "unsupported"
        assert "no second thread" in end.text("error")


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
