"""A play as the page draws it: lanes, operations, waits, the violation, and a window around it."""

from pathlib import Path

import msgspec
import pytest
from stored_runs import dead_writer, keep_play
from synthetic import Tape, scene

from killpoint.checkers.finding import hangs
from killpoint.report.html.diagram import Diagram, diagram
from killpoint.report.html.spans import spans


def _kind(found: Diagram, index: int) -> str:
    return found.kinds[found.events[index][2]][0]


def _hanging(tmp_path: Path, messages: int = 3, most: int | None = None) -> Diagram:
    tape = dead_writer(messages)
    folder = keep_play(tmp_path, "x", tape, scene(judges="Q6", readers=2))
    return diagram(folder, hangs(tape.history())[0].evidence, most)


def test_each_process_has_a_lane_and_what_is_done_to_it_lies_there(tmp_path: Path) -> None:
    found = _hanging(tmp_path)
    assert found.lanes == ["writer", "reader-0", "reader-1"]
    kill = next(n for n in range(found.total) if _kind(found, n) == "fault")
    assert found.lanes[found.events[kill][1]] == "writer"
    assert dict(found.kinds)["fault"] == "fault"


def test_the_violation_is_the_hang_among_the_lines_that_convict(tmp_path: Path) -> None:
    found = _hanging(tmp_path)
    assert _kind(found, found.violation) == "hang"
    assert found.violation in found.evidence
    assert {_kind(found, n) for n in found.evidence} >= {"reached", "fault", "exit", "hang"}


def test_without_lines_that_convict_no_violation_is_shown(tmp_path: Path) -> None:
    folder = keep_play(tmp_path, "x", Tape().sent(0).gets(0), scene())
    assert diagram(folder, ["of another play"]).violation == -1


def test_who_hangs_waits_for_whom_is_gone(tmp_path: Path) -> None:
    first, second = _hanging(tmp_path).waits
    assert (first.role, first.op, first.outcome) == ("reader-0", "receive", "hang")
    assert first.seconds == pytest.approx(4.0, abs=0.1)
    assert [each.role for each in first.waits_for] == ["writer"]
    assert "dead by signal 9 at queue.py:7" in first.waits_for[0].how
    assert second.role == "reader-1"


def test_a_call_that_came_back_late_is_a_wait_too(tmp_path: Path) -> None:
    tape = Tape().kills("writer").fails("timeout", after=3.0)
    (wait,) = diagram(keep_play(tmp_path, "x", tape, scene())).waits
    assert (wait.role, wait.op, wait.outcome) == ("reader-0", "receive", "timeout")
    assert [each.role for each in wait.waits_for] == ["writer"]


def test_operations_end_with_their_call_or_their_process() -> None:
    tape = Tape().sent(0).waits().exits("reader-0", number=9).waits("reader-1")
    assert [(span.role, span.op, span.end, span.outcome) for span in spans(tape.events)] == [
        ("writer", "send", 1, "ok"),
        ("reader-0", "receive", 3, "ended"),
        ("reader-1", "receive", -1, "ok"),
    ]


def test_two_threads_in_one_kind_of_call_are_told_apart_by_number() -> None:
    tape = Tape().sends(1).sends(2)
    tape.tell("writer", "sent", seq=2, outcome="timeout").tell("writer", "sent", seq=1)
    assert [(span.begin, span.end) for span in spans(tape.events)] == [(0, 3), (1, 2)]


def test_work_that_raised_told_no_end_and_ends_with_the_next() -> None:
    tape = Tape().tell("worker-0", "serving", call=1).tell("worker-0", "serving", call=2)
    tape.tell("worker-0", "served", call=2)
    assert [(span.end, span.outcome) for span in spans(tape.events)] == [(1, "raised"), (2, "ok")]


def test_a_window_keeps_the_violation_and_its_places(tmp_path: Path) -> None:
    whole = _hanging(tmp_path / "whole", 40)
    part = _hanging(tmp_path / "part", 40, most=60)
    assert (len(part.events), part.total) == (60, whole.total)
    assert part.events[part.violation] == whole.events[whole.violation]
    assert [_kind(part, n) for n in part.evidence] == [_kind(whole, n) for n in whole.evidence]
    assert all(_kind(part, a.source) == "send" for a in part.arrows)
    assert len(part.arrows) < len(whole.arrows)
    assert [_kind(part, wait.at) for wait in part.waits] == ["hang", "hang"]


def test_flags_at_the_beginning_of_a_window_are_those_that_stores_before_it_left(
    tmp_path: Path,
) -> None:
    tape = Tape().stores("writer", 1, 0, 1).stores("reader-0", 1, 1, 1)
    for seq in range(9):
        tape.sent(seq)
    tape.stores("writer", 0, 0, 1).stores("writer", 1, 0, 0)
    folder = keep_play(tmp_path, "x", tape, scene(observe=True))
    line = tape.history().lines(tape.events)[-1]
    ring = diagram(folder, [line], 10).ring
    assert ring is not None
    assert ring.flags == [[0, 0], [1, 1]]
    whole = diagram(folder, [line]).ring
    assert whole is not None
    assert (whole.slots, whole.readers, whole.flags) == (2, ["reader-0"], [[0, 0], [0, 0]])


def test_a_diagram_can_be_written_as_json(tmp_path: Path) -> None:
    data = msgspec.json.decode(msgspec.json.encode(_hanging(tmp_path)))
    assert len(data["events"]) == data["total"]
    assert all(len(arrow) == 4 for arrow in data["arrows"])
    assert all(len(span) == 6 for span in data["spans"])
