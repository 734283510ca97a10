"""Hangs, crashes and deaths, read off what the runner wrote."""

from __future__ import annotations

import signal

import pytest
from synthetic import Tape, scene

from killpoint.checkers.finding import (
    Finding,
    crash_first,
    crashes,
    deaths,
    evidence,
    hangs,
    hangs_of,
    steadied,
)
from killpoint.checkers.held_up import held_up
from killpoint.ledger import Ledger
from killpoint.verdict import Violation


def test_a_hang_names_the_role_its_operation_its_line_and_whom_it_waits_for() -> None:
    tape = Tape().waits().kills("writer").later(4000).hangs("reader-0", "receive")
    (found,) = hangs(tape.history())
    assert found.kind == "hang"
    for word in ("reader-0", "receive", "4.0 s", "acquire_read (ring.py:10)", "writer, dead"):
        assert word in found.cause


def test_a_hang_with_everybody_there_says_so() -> None:
    tape = Tape().waits().hangs("reader-0", "receive")
    (found,) = hangs(tape.history())
    assert "it waits, and nobody is dead, stopped or cut off" in found.cause


def test_a_hang_names_who_is_away_whatever_else_befell_it() -> None:
    """A connection that was cut carries nothing after a reset either, until it is healed."""
    for first, then, over, words in (
        ("cut", "reset", "heal", "writer, cut off"),
        ("cut", "delay", "heal", "writer, cut off"),
        ("stop", "cut", "continue", "writer, stopped; writer, cut off"),
        ("cut", "continue", "heal", "writer, cut off"),
    ):
        tape = Tape().waits()
        for fault in (first, then):
            tape.tell("director", "fault", fault=fault, target="writer")
        (found,) = hangs(tape.later(4000).hangs("reader-0", "receive").history())
        assert f"it waits for {words}" in found.cause
        tape = Tape().waits().tell("director", "fault", fault=first, target="writer")
        tape.tell("director", "fault", fault=over, target="writer")
        (found,) = hangs(tape.later(4000).hangs("reader-0", "receive").history())
        assert "nobody is dead, stopped or cut off" in found.cause


def test_a_send_that_hangs_names_the_reader_that_has_not_moved() -> None:
    tape = Tape().sent(0).waits().sends(1).later(4000).hangs("writer", "send")
    (found,) = hangs(tape.history())
    assert "reader-0 sleeps in receive beside 1 unread message" in found.cause
    assert "nobody that is gone" not in found.cause


def test_a_send_to_a_reader_that_does_not_receive_does_not_hang() -> None:
    """It waits, as a bounded queue must."""
    tape = Tape().sent(0).gets(0).sent(1).sends(2).later(4000).hangs("writer", "send")
    assert hangs(tape.history()) == []
    assert hangs_of(tape.history(), "writer") == []


def test_a_reader_that_stands_still_is_stopped_whatever_else_befell_it() -> None:
    """It sleeps in its receive, and cannot take what is there."""
    tape = Tape().waits().tell("director", "fault", fault="stop", target="reader-0")
    tape.tell("director", "fault", fault="slow", target="reader-0").sent(0).sends(1).later(4000)
    holder = held_up(tape.history(), tape.events[-1].t, tape.now)
    assert holder is not None
    assert (holder.words, holder.by_queue) == (
        "reader-0, stopped, has taken 0 of 1 messages",
        False,
    )


def test_a_send_that_waits_for_the_dead_hangs() -> None:
    tape = Tape().sent(0).sends(1).kills("reader-0").later(4000).hangs("writer", "send")
    assert "waits for reader-0, dead" in hangs(tape.history())[0].cause


def test_an_abort_is_told_with_the_line_that_the_library_wrote() -> None:
    said = "Too many open files (src/epoll.cpp:65)"
    tape = Tape().tell("director", "exit", target="writer", signal=6, said=said)
    (found,) = crashes(tape.history())
    assert found.cause == f"writer aborted (signal 6) and wrote: {said}"


def test_an_abort_without_a_word_is_told_as_one() -> None:
    (found,) = crashes(Tape().exits("writer", number=signal.SIGABRT).history())
    assert found.cause == "writer aborted (signal 6) and wrote nothing"


def test_only_the_operations_asked_for_count() -> None:
    history = Tape().hangs("reader-0", "receive").hangs("writer", "close").history()
    assert len(hangs(history)) == 2
    assert [found.cause.split()[0] for found in hangs(history, "close")] == ["writer"]


def test_a_signal_nobody_sent_is_a_crash_and_one_that_was_sent_is_none() -> None:
    history = Tape().kills("writer").exits("reader-0", number=signal.SIGBUS).history()
    (found,) = crashes(history)
    assert found.kind == "crash"
    assert "reader-0 died of signal 7" in found.cause


def test_a_clean_exit_is_neither_a_crash_nor_a_death() -> None:
    history = Tape().exits("writer").exits("reader-0", code=3).history()
    assert crashes(history) == []
    assert deaths(history) == {}


def test_a_death_by_teardown_is_not_the_scenarios() -> None:
    history = Tape().kills("writer").hangs("reader-0", "receive").history()
    assert list(deaths(history)) == ["writer"]


def test_a_dead_party_is_placed_where_it_died_not_where_another_stood() -> None:
    tape = Tape().waits()
    tape.tell("director", "reached", target="reader-1", where="ring.py:1 in read")
    tape.tell("director", "reached", target="writer", where="ring.py:99 in write")
    tape.kills("writer").hangs("reader-0", "receive")
    (found,) = hangs(tape.history())
    assert "ring.py:99 in write" in found.cause


def test_a_party_that_went_on_is_not_waited_for() -> None:
    tape = Tape().waits()
    tape.tell("director", "fault", fault="stop", target="writer")
    tape.tell("director", "fault", fault="continue", target="writer")
    (found,) = hangs(tape.hangs("reader-0", "receive").history())
    assert "nobody is dead, stopped or cut off" in found.cause


def test_evidence_is_at_most_ten_lines_and_the_last_ones() -> None:
    tape = Tape()
    for seq in range(30):
        tape.sent(seq)
    lines = evidence(tape.history(), tape.history().events)
    assert len(lines) == 10
    assert "seq=29" in lines[-1]


@pytest.mark.parametrize(
    ("told", "steady"),
    [
        ("PeerDied: reader 0 (pid 12393) ended", "PeerDied: reader 0 (pid …) ended"),
        ("by writer, process 7 (python)", "by writer, process … (python)"),
        ("connect to 127.0.0.1:43211 failed", "connect to 127.0.0.1:… failed"),
        ("tcp://[::1]:5555, port 5555", "tcp://[::1]:…, port …"),
        ("no such file: /tmp/tmpab12cd/x.sock", "no such file: /tmp/…"),
        ("'/dev/shm/psm_0a1b2c3d' is gone", "'/dev/shm/…' is gone"),
        ("at ipc:///tmp/77f9-00aa; retry", "at ipc://…; retry"),
        ("<Socket object at 0x7f00deadbeef>", "<Socket object at 0x…>"),
        ("call 3 took 2.51 s (ring.py:10), 64 bytes", "call 3 took 2.51 s (ring.py:10), 64 bytes"),
    ],
)
def test_what_a_play_draws_anew_is_no_part_of_a_cause(told: str, steady: str) -> None:
    assert steadied(told) == steady


def test_every_judges_causes_are_steady() -> None:
    def judge(*_: object) -> Finding:
        return Finding([Violation("lost", "it waited at 10.0.0.1:4077 for pid 99")])

    found = crash_first("Q1", judge)(scene(), Tape().history(), Ledger())
    assert found.violations[0].cause == "it waited at 10.0.0.1:… for pid …"
