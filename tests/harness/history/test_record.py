"""The merged record, and the questions asked of it."""

from __future__ import annotations

from pathlib import Path

from synthetic import MS, Tape

from killpoint.history.event import Event
from killpoint.history.log import Log
from killpoint.history.record import History


def test_events_of_all_roles_are_merged_by_their_times(tmp_path: Path) -> None:
    logs = [Log(tmp_path / f"{role}.jsonl", role) for role in ("b", "a")]
    for turn in range(6):
        logs[turn % 2].write("send", seq=turn)
    assert [event.number("seq") for event in History.read(tmp_path).events] == list(range(6))
    for log in logs:
        log.close()


def test_events_of_one_role_at_one_instant_keep_their_order() -> None:
    events = [Event(5, "writer", "send", {"seq": seq}) for seq in range(9)]
    assert [event.number("seq") for event in History(events).events] == list(range(9))


def test_questions_are_answered_by_kind_and_role() -> None:
    history = Tape().sent(0).gets(0).gets(1, "reader-1").history()
    assert [event.role for event in history.of("got")] == ["reader-0", "reader-1"]
    first = history.first("got", role="reader-1")
    assert first is not None
    assert first.number("seq") == 1
    assert history.first("hang") is None


def test_an_empty_record_starts_at_zero_and_has_nothing(tmp_path: Path) -> None:
    history = History.read(tmp_path)
    assert (history.start(), history.events) == (0, [])
    assert history.late_tick(0, 10) == 0


def test_only_control_waits_that_touched_the_interval_count() -> None:
    tape = Tape().later(100).late(40)
    end = tape.now
    history = tape.late(5).history()
    assert history.late_tick(end - 10 * MS, end) == 40 * MS
    assert history.late_tick(end - 100 * MS, end - 50 * MS) == 0
    assert history.late_tick(end + MS // 2, end + 9 * MS) == 5 * MS


def test_an_event_is_a_line_with_its_time_its_role_and_what_it_says() -> None:
    tape = Tape().later(250).tell("reader-0", "got", seq=0, outcome="ok", error="")
    (line,) = tape.history().lines(tape.events)
    assert line.split() == ["0.000", "ms", "reader-0", "got", "seq=0", "outcome=ok"]


def test_a_field_of_another_type_is_a_default() -> None:
    event = Event(0, "a", "x", {"seq": "7", "name": None})
    assert event.number("seq") == -1
    assert event.number("none", 4) == 4
    assert event.text("name") == ""
