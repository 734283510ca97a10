"""A play on a time axis, by the rules of the format that it is written in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import MS, Tape, scene
from trace_rules import rules

from killpoint.cli import main
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.report import trace
from killpoint.scenario import dump


def _drawn(tape: Tape) -> dict[str, list[dict[str, Any]]]:
    return rules(trace.text(trace.trace_of(tape.history())))


def _names(events: list[dict[str, Any]]) -> list[str]:
    return [event["name"] for event in events]


def test_a_role_is_a_process_and_its_orders_and_calls_are_spans() -> None:
    tape = Tape().tell("writer", "begin", order=1, op="send").sent(0)
    by = _drawn(tape.tell("writer", "end", order=1, op="send", outcome="ok"))
    assert [e["args"]["name"] for e in by["M"] if e["name"] == "process_name"] == ["writer"]
    outer, inner = by["X"]
    assert (outer["name"], outer["cat"], inner["cat"]) == ("send", "order", "call")
    assert inner["tid"] == outer["tid"]
    assert (inner["ts"], inner["dur"]) == (1000.0, 2000.0)
    assert inner["args"]["outcome"] == "ok"


def test_each_reader_of_a_message_has_an_arrow_from_its_send() -> None:
    by = _drawn(Tape().sent(0).gets(0).gets(0, "reader-1").sent(1).gets(1))
    assert len(by["s"]) == len(by["f"]) == 3
    assert [e["ts"] for e in by["s"]] == [0.0, 0.0, by["X"][-2]["ts"]]


def test_a_broadcast_goes_from_its_source_to_the_others() -> None:
    tape = Tape()
    for rank in "ab":
        tape.tell(rank, "broadcast", source="a", **({"seq": 4} if rank == "a" else {}))
    for rank in "ab":
        tape.tell(rank, "broadcast-done", source="a", seq=4, outcome="ok")
    by = _drawn(tape)
    assert [(s["pid"], f["pid"]) for s, f in zip(by["s"], by["f"], strict=True)] == [(1, 2)]


def test_a_tensor_is_known_again_by_its_digest() -> None:
    tape = Tape().tell("pipe-1", "pipe-receive").tell("pipe-0", "pipe-send", seq=0, digest="ab")
    tape.tell("pipe-0", "pipe-sent", seq=0, outcome="ok")
    by = _drawn(tape.tell("pipe-1", "pipe-got", outcome="ok", digest="ab"))
    assert _names(by["s"]) == ["pipe-send 0"]


def test_a_call_goes_to_the_workers_that_serve_it_and_their_replies_come_back() -> None:
    tape = Tape().tell("executor", "call", n=3, method="work")
    tape.tell("worker-0", "serving", call=3).tell("worker-1", "serving", call=3)
    tape.tell("worker-1", "served", call=3).tell("worker-0", "served", call=3)
    replies = [[0, 3, "digest"], [1, 2, "digest"]]
    by = _drawn(tape.tell("executor", "call-done", n=3, outcome="ok", replies=replies))
    assert sorted(_names(by["s"])) == ["call 3", "call 3", "served 3"]


def test_what_never_ended_lasts_until_its_role_died() -> None:
    by = _drawn(Tape().sends(0).kills("writer").later(50).gets(9))
    never = by["X"][0]
    assert never["name"] == "send (never ended)"
    assert never["args"]["ended"] is False
    death = next(e for e in by["i"] if e["name"] == "exit")
    assert never["ts"] + never["dur"] == pytest.approx(death["ts"])


def test_of_a_role_that_was_started_again_it_is_the_end_of_the_life_it_was_in() -> None:
    never = _drawn(Tape().exits("writer").sends(0).exits("writer").later(9).exits("writer"))["X"][0]
    assert (never["ts"], never["dur"]) == (1000.0, 1000.0)


def test_a_message_that_never_came_has_no_arrow() -> None:
    assert _names(_drawn(Tape().sent(0).sent(1).gets(1))["s"]) == ["send 1"]


def test_a_message_that_came_altered_says_so() -> None:
    by = _drawn(Tape().sent(0).gets(0, digest="other"))
    assert _names(by["s"]) == _names(by["f"]) == ["send 0 (altered)"]


def test_faults_hangs_and_exits_are_marks_of_whom_they_befell() -> None:
    by = _drawn(Tape().sends(0).waits().hangs("reader-0", "receive").exits("writer"))
    pids = {e["args"]["name"]: e["pid"] for e in by["M"] if e["name"] == "process_name"}
    marks = {e["name"]: e for e in by["i"]}
    assert marks["hang receive"]["pid"] == marks["fault kill"]["pid"] == pids["reader-0"]
    assert marks["intent kill"]["pid"] == pids["director"]
    assert (marks["fault kill"]["s"], marks["exit"]["s"], marks["intent kill"]["s"]) == tuple("gpt")


def test_calls_of_several_threads_that_cross_stand_in_lanes_beside_each_other() -> None:
    tape = Tape().tell("a", "submit", n=0).tell("a", "submit", n=1).tell("a", "submitted", n=0)
    by = _drawn(tape.tell("a", "submitted", n=1))
    assert [span["tid"] for span in by["X"]] == [1, 2]


def test_what_was_measured_is_a_counter_of_whom_it_is_of() -> None:
    by = _drawn(Tape().tell("director", "weight", target="writer", rss=7, pss=5).late(2))
    weight, late = by["C"]
    assert weight["args"] == {"rss": 7, "pss": 5}
    assert late["args"] == {"ns": 2_000_000}
    assert weight["pid"] != late["pid"]
    assert by["i"] == []


def test_serving_that_raised_ends_when_the_next_begins() -> None:
    tape = Tape().tell("w", "serving", call=0).tell("w", "serving", call=1)
    first, _ = _drawn(tape.tell("w", "served", call=1))["X"]
    assert (first["name"], first["dur"]) == ("serving (never ended)", 1000.0)


def test_requests_to_an_engine_are_periods_that_may_cross() -> None:
    tape = Tape().tell("front-end", "request", n=0).tell("front-end", "request", n=1)
    tape.tell("front-end", "answer", n=0, outcome="ok").tell("front-end", "answer", n=1)
    by = _drawn(tape)
    assert [(x["name"], x["tid"]) for x in by["X"]] == [("request", 1), ("request", 2)]


def test_a_request_that_another_process_ends_is_a_mark() -> None:
    by = _drawn(Tape().tell("front-end-0", "request", n=0).tell("engine-0", "stepped", n=0))
    assert _names(by["i"]) == ["request", "stepped"]


def test_a_history_without_an_event_is_a_trace() -> None:
    assert _drawn(Tape()) == {"X": [], "i": [], "C": [], "M": [], "s": [], "f": []}


_KINDS = [
    *("begin", "end", "send", "sent", "receive", "got", "call", "call-done", "serving", "served"),
    *("request", "answer", "exit", "fault", "late-tick", "send-to", "got-from", "anything"),
]
_EVENTS = st.builds(
    lambda t, role, kind, number, other: Event(
        1_000 * MS + t,
        role,
        kind,
        {"order": number, "seq": number, "n": number, "call": number, "ns": t, "target": other},
    ),
    st.integers(0, 40),
    st.sampled_from("abc"),
    st.sampled_from(_KINDS),
    st.integers(0, 2),
    st.sampled_from(["", "a", "d"]),
)


@settings(max_examples=100)
@given(st.lists(_EVENTS, max_size=40))
def test_any_history_is_drawn_by_the_rules(events: list[Event]) -> None:
    rules(trace.text(trace.trace_of(History(events))))


def _recorded(run: Path) -> Path:
    play = run / "plays" / "R3-synthetic"
    play.mkdir(parents=True)
    (play / "scenario.toml").write_text(dump(scene()))
    lines = [msgspec.json.encode(event) for event in Tape().sent(0).gets(0).events]
    (play / "all.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return play


def test_the_command_writes_the_trace_beside_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    play = _recorded(tmp_path)
    assert main(["trace", str(play)]) == 0
    assert capsys.readouterr().out.startswith(f"{play / 'trace.json'}: ")
    assert len(rules((play / "trace.json").read_text())["f"]) == 1
    assert '"case":"R3/synthetic"' in (play / "trace.json").read_text()


def test_a_run_in_the_place_of_a_play_is_told_with_its_plays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _recorded(tmp_path)
    assert main(["trace", str(tmp_path)]) == 2
    assert "expected one of its plays: plays/R3-synthetic" in capsys.readouterr().err
    assert main(["trace", str(tmp_path / "nothing")]) == 2
    assert "expected the folder of a play" in capsys.readouterr().err


def test_a_damaged_line_is_told_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    play = _recorded(tmp_path)
    (play / "all.jsonl").write_text("nonsense\n")
    assert main(["trace", str(play)]) == 2
    assert "all.jsonl:1: not an event" in capsys.readouterr().err
