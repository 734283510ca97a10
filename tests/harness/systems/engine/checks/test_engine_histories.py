"""H6 on histories that are told: what it lets pass, and what it calls by which name."""

from __future__ import annotations

import pytest
from engine_tape import FRONT, WELL, EngineTape

from killpoint.checkers.finding import Inconclusive


def test_what_the_model_alone_gives_could_have_been() -> None:
    tape = EngineTape()
    one, two = tape.asks(), tape.asks()
    tape.gives(two).looks(open=1).gives(one)
    n = tape.asks()
    tape.tell(FRONT, "cancelled", n=n).gives(n, [3], "cancelled")
    found = tape.calm().judged("H6")
    assert found.violations == []
    assert found.counts["requests"] == found.counts["operations"] == 3
    assert found.counts["overlapping pairs"] == 1
    assert found.counts["cancelled"] == 1


def test_an_id_that_is_used_again_is_counted() -> None:
    tape = EngineTape()
    for _ in range(3):
        n = tape.asks()
        tape.events[-1].data["id"] = "one"
        tape.gives(n)
    assert tape.calm().judged("H6").counts["ids used again"] == 2


def test_other_tokens_could_not_have_been() -> None:
    tape = EngineTape()
    tape.gives(tape.asks(), [3, 1, 4, 1, 6])
    assert tape.calm().convicted("H6").kind == "wrong-data"


def test_nobody_is_cancelled_for_another_one() -> None:
    tape = EngineTape()
    one, two = tape.asks(), tape.asks()
    tape.tell(FRONT, "cancelled", n=one).gives(one, [], "cancelled")
    tape.gives(two, [], "cancelled")
    assert "which nobody had asked for" in tape.calm().convicted("H6").cause


def test_a_second_end_could_not_have_been() -> None:
    tape = EngineTape()
    n = tape.asks()
    assert tape.gives(n).gives(n).calm().convicted("H6").kind == "duplicate"


@pytest.mark.parametrize("outcome", ["failed", "refused"])
def test_a_request_fails_only_if_something_was_done_to_where_it_may_have_been(
    outcome: str,
) -> None:
    tape = EngineTape()
    tape.fails(tape.asks(), "Failed: its id is in use", outcome)
    found = tape.calm().convicted("H6")
    assert found.kind == "lost"
    assert "nothing had been done to it: Failed: its id is in use" in found.cause


def test_one_that_fails_with_its_replica_may() -> None:
    tape = EngineTape(data_parallel=2).serves(0.5)
    n = tape.asks()
    tape.strikes("kill", "core-0").fails(n, "Failed: core-0 died").whole()
    assert tape.serves(0.5).calm().judged("H6").violations == []


def test_one_that_fails_when_the_coordinator_dies_or_its_replica_is_back_may_not() -> None:
    tape = EngineTape(data_parallel=2).serves(0.5)
    n = tape.asks()
    tape.strikes("kill", "coordinator").fails(n, "Failed: coordinator died").whole()
    assert tape.calm().convicted("H6").kind == "lost"
    tape = EngineTape(data_parallel=2).serves(0.5)
    tape.strikes("kill", "core-0").whole()
    tape.fails(tape.asks(), "Failed: core-0 died")
    assert tape.calm().convicted("H6").kind == "lost"


def test_a_part_that_stays_away_is_told_though_later_deaths_were_left_out() -> None:
    tape = EngineTape(data_parallel=2).serves(0.5)
    for _ in range(2):
        tape.strikes("kill", "coordinator").whole()
    tape.strikes("kill", "coordinator").later(25_000).whole(yes=False)
    tape.told.append(tape.told[-1])
    found = tape.calm().convicted("H6")
    assert found.kind == "starved"
    assert "coordinator had not come back 25.0 s after its death" in found.cause
    assert "after 2 deaths from which it had come back" in found.cause


def test_a_part_is_measured_by_its_own_returns_where_there_were_some() -> None:
    tape = EngineTape(start=9.0, data_parallel=2).serves(0.5)
    for _ in range(2):
        tape.strikes("kill", "coordinator").later(1_000).whole()
    tape.strikes("kill", "coordinator").later(25_000).whole(yes=False)
    assert tape.calm().convicted("H6").kind == "starved"


def test_a_part_that_was_not_waited_for_long_enough_says_nothing() -> None:
    tape = EngineTape(start=9.0).serves(0.5)
    tape.strikes("kill", "core-0").later(25_000).whole(yes=False)
    with pytest.raises(Inconclusive, match=r"the engine's start had taken 9\.0 s"):
        tape.calm().judged("H6")


def test_what_ended_requests_held_is_free_for_the_next_one() -> None:
    tape = EngineTape().serves(1.0)
    tape.asks()
    found = tape.hangs_on(5.0, "alive").calm().convicted("H6")
    assert found.kind == "starved"
    assert "no token came and nothing ended for 4" in found.cause
    assert "with 1 request open and every part there" in found.cause


def test_one_may_wait_for_a_while_and_for_longer_while_a_part_is_away() -> None:
    tape = EngineTape().serves(1.0)
    n = tape.asks()
    assert tape.hangs_on(2.5, WELL).gives(n).looks().calm().judged("H6").violations == []
    tape = EngineTape().serves(1.0)
    n = tape.asks(within=9.0)
    tape.strikes("kill", "core-0").hangs_on(5.0, "alive").whole()
    assert tape.gives(n).looks().calm().judged("H6").violations == []
