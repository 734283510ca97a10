"""E3 of servers tells one that goes on without a replica from one that does not, on tapes."""

from __future__ import annotations

import pytest
from server_tape import ServerTape

from killpoint.checkers.finding import Inconclusive

_BEFORE = 100.0
"""Characters a second, undisturbed."""
_ALL = ["core-0", "core-1", "front"]


def _killed(*, slow: float = 1.0, restarts: bool = True) -> ServerTape:
    """Undisturbed from second 2 to 6, under load from 6, one of two replicas killed at 10."""
    tape = ServerTape(slow=slow, parts=_ALL, restarts=restarts)
    for _ in range(2):
        tape.asks(2, "whole", 6, control=True)
    tape.streams(2, 10, _BEFORE)
    tape.at(9.9, "gauge", open=4.0, shares=[2.0, 2.0])
    return tape.strikes(10, "kill", "core-1")


def _comes_back(tape: ServerTape, t: float) -> ServerTape:
    tape.at(10.1, "part-ended", part="core-1", signal=9).tree(10.1, "core-0", "front")
    return tape.tree(t, *_ALL)


def _ended(tape: ServerTape, t: float) -> ServerTape:
    return tape.at(t, "load-ended").at(t + 1, "calm")


def _held(tape: ServerTape) -> bool:
    found = tape.judged("E3")
    return not found.violations and found.counts == {"kills": 1}


def _cause(tape: ServerTape, kind: str) -> str:
    found = tape.violation("E3")
    assert found is not None
    assert found.kind == kind, found.cause
    return found.cause


def test_it_holds_if_others_go_on_and_the_dead_ones_requests_fail_at_once() -> None:
    tape = _comes_back(_killed(), 12).asks(8, "error", 10.5, status=500).asks(8, "whole", 12)
    tape.asks(11, "refused", 11.1).asks(16, "error", 16.1, status=503).asks(16, "whole", 18)
    assert _held(_ended(tape.streams(10, 12, 60).streams(12, 20, 95), 20))


def test_a_request_that_was_neither_retried_nor_failed_is_a_hang() -> None:
    tape = _comes_back(_killed(), 12).asks(8, "hang", 68).asks(8, "whole", 12).streams(10, 16, 95)
    assert "1 of 2 requests in flight as core-1" in _cause(_ended(tape, 16), "hang")


@pytest.mark.parametrize(
    ("slow", "asked", "failed", "late"),
    [
        (1.0, 8, 14.5, False),
        (1.0, 8, 15.5, True),
        (3.0, 8, 15.5, False),
        (1.0, 11, 15.5, False),
        (1.0, 11, 17.5, True),
    ],
)
def test_what_fails_does_so_within_5_s(
    slow: float, asked: float, failed: float, late: bool
) -> None:
    tape = _comes_back(_killed(slow=slow), 12).asks(asked, "error", failed, status=500)
    _ended(tape.streams(10, 30, 95), 30)
    assert _held(tape) if not late else "later than 5 s after core-1" in _cause(tape, "late")


def test_a_machine_that_kept_a_plain_wait_waiting_gives_more_time() -> None:
    tape = _comes_back(_killed(), 12).asks(8, "error", 15.5, status=500)
    tape.at(12, "late-tick", ns=400_000_000).streams(10, 30, 95)
    assert _held(_ended(tape, 30))


@pytest.mark.parametrize(("asked", "status", "lost"), [(14, 500, False), (16, 500, True)])
def test_what_is_asked_once_the_death_is_known_succeeds(
    asked: float, status: int, lost: bool
) -> None:
    tape = _comes_back(_killed(), 12).asks(asked, "error", asked + 1, status=status)
    _ended(tape.streams(10, 20, 95), 20)
    assert _held(tape) if not lost else "although another replica was there" in _cause(tape, "lost")


def test_what_is_asked_then_and_fails_late_is_lost_and_not_late() -> None:
    tape = _comes_back(_killed(), 12).asks(16, "error", 25, status=500)
    assert _cause(_ended(tape.streams(10, 30, 95), 30), "lost")


@pytest.mark.parametrize(("last", "lost"), [(10.6, False), (12.0, True)])
def test_a_stream_that_still_got_text_was_another_replicas(last: float, lost: bool) -> None:
    tape = _comes_back(_killed(), 12).asks(8, "error", 13, status=200, last=last)
    _ended(tape.streams(10, 20, 95), 20)
    assert _held(tape) if not lost else "still got text 1 s after" in _cause(tape, "lost")


@pytest.mark.parametrize(("failed", "lost"), [(2, False), (3, True)])
def test_no_more_fail_than_one_replica_had_by_the_servers_metrics(failed: int, lost: bool) -> None:
    tape = _comes_back(_killed(), 12)
    for n in range(4):
        tape.asks(8, *("error", 10.2) if n < failed else ("whole", 12), status=500)
    _ended(tape.streams(10, 20, 95), 20)
    assert _held(tape) if not lost else "no replica had more than 2" in _cause(tape, "lost")


def test_who_came_since_the_metrics_were_asked_for_may_be_anybodys() -> None:
    tape = _comes_back(_killed(), 12)
    for asked in (8, 8, 9.5):
        tape.asks(asked, "error", 10.2, status=500)
    assert _held(_ended(tape.streams(10, 20, 95), 20))


def test_without_metrics_by_replica_nobody_says_who_had_which_request() -> None:
    tape = _comes_back(_killed(), 12)
    for event in tape.events:
        event.data.pop("shares", None)
    for _ in range(4):
        tape.asks(8, "error", 10.2, status=500)
    assert _held(_ended(tape.streams(10, 20, 95), 20))


def test_goodput_that_stays_below_half_is_starved_and_what_comes_late_is_late() -> None:
    low = _comes_back(_killed(), 12).streams(10, 22, 40)
    assert "10 s after core-1 was killed goodput" in _cause(_ended(low, 22), "starved")
    late = _comes_back(_killed(), 12).streams(10, 22, 40).streams(22, 30, 95)
    assert "only 1" in _cause(_ended(late, 30), "late")
    short = _ended(_comes_back(_killed(), 12).streams(10, 15, 40), 15)
    with pytest.raises(Inconclusive, match=r"the load ended 5\.0 s after"):
        short.judged("E3")


def test_a_slow_machine_has_more_time_to_be_half_again() -> None:
    tape = _comes_back(_killed(slow=3.0), 12).streams(10, 25, 40).streams(25, 40, 95)
    assert _held(_ended(tape, 40))


def test_a_server_that_ends_with_its_replica_is_starved_at_once() -> None:
    tape = _killed().asks(8, "error", 10.2, status=500).ends(10.5, code=1).tree(10.5)
    assert "the server ended, and with it the other" in _cause(_ended(tape, 13), "starved")


def test_with_the_replica_back_all_is_as_before() -> None:
    tape = _comes_back(_killed(), 12).streams(10, 40, 60)
    assert "with core-1 back" in _cause(_ended(tape, 40), "starved")
    with pytest.raises(Inconclusive, match="before it was known"):
        _ended(_comes_back(_killed(), 12).streams(10, 16, 60), 16).judged("E3")
    busy = _comes_back(_killed(), 12).streams(10, 60, 60).at(30, "late-tick", ns=800_000_000)
    with pytest.raises(Inconclusive, match="no time"):
        _ended(busy, 60).judged("E3")


@pytest.mark.parametrize("restarts", [True, False])
def test_only_who_promises_it_must_start_the_replica_again(restarts: bool) -> None:
    tape = _killed(restarts=restarts).at(10.1, "part-ended", part="core-1", signal=9)
    _ended(tape.tree(10.1, "core-0", "front").streams(10, 40, 60), 40)
    assert _held(tape) if not restarts else "promises to start it again" in _cause(tape, "starved")


def test_a_play_without_another_replica_or_without_a_control_says_nothing() -> None:
    with pytest.raises(Inconclusive, match="no replica was killed"):
        ServerTape(parts=[*_ALL, "worker-0"]).strikes(4, "kill", "worker-0").judged("E3")
    with pytest.raises(Inconclusive, match="no replica was killed"):
        ServerTape().strikes(4, "kill", "core-0").judged("E3")
    bare = ServerTape(parts=_ALL).strikes(10, "kill", "core-1").streams(10, 30, 50)
    with pytest.raises(Inconclusive, match="undisturbed"):
        _ended(bare, 30).judged("E3")
