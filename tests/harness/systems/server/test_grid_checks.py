"""What judges say of plays of the grid and of users' loads, on records made by hand."""

from __future__ import annotations

import pytest
from server_tape import ServerTape

from killpoint.checkers.finding import Inconclusive


def _slow(end: str) -> ServerTape:
    tape = ServerTape().at(2, "reads-slowly", client=0)
    return tape.asks(3, "whole", 6).asks(3, end, 7)


def test_e9_what_slow_readers_cost_is_told_as_theirs() -> None:
    found = _slow("torn").violation("E9")
    assert found is not None
    assert (found.kind, found.cause) == (
        "lost",
        "beside clients that read slowly, they or others got no answer: 1 torn",
    )
    assert _slow("whole").judged("E9").counts == {"answers": 2}


def test_e9_without_anybody_that_goes_away_or_is_slow_nothing_is_said() -> None:
    with pytest.raises(Inconclusive, match="no client went away"):
        ServerTape().asks(3, "whole", 6).judged("E9")


@pytest.mark.parametrize(("gone", "late"), [(14.5, False), (15.5, True)])
def test_e8_counts_from_the_kill_of_a_front_that_drained(gone: float, late: bool) -> None:
    tape = ServerTape().strikes(4, "sigterm", "front").strikes(5, "kill", "front")
    tape.tree(5.1, "core-0").ends(5.1, signal=9).tree(gone)
    assert (tape.at(20, "looked-on").violation("E8") is not None) == late


@pytest.mark.parametrize(
    ("fault", "part", "said"),
    [
        ("starve", "core-0", "core-0 had no descriptor left to open"),
        ("fill-shm", "front", "/dev/shm had been filled"),
        ("fill-tmp", "front", "the TMPDIR had been filled"),
    ],
)
def test_a_cause_names_what_had_run_out(fault: str, part: str, said: str) -> None:
    tape = ServerTape().strikes(3, fault, part).asks(2, "hang", 63)
    found = tape.violation("E1")
    assert found is not None
    assert said in found.cause


def test_e7_who_ends_by_itself_with_0_as_something_ran_out_lies() -> None:
    tape = ServerTape().strikes(3, "fill-shm", "front")
    assert tape.judged("E7").counts == {"ends": 0}
    found = tape.ends(4, code=0).violation("E7")
    assert found is not None
    assert found.cause == "the service ended by itself with status 0; /dev/shm had been filled"


def test_e7_of_a_front_that_neither_ends_nor_comes_to_serve_nothing_is_said() -> None:
    tape = ServerTape()
    tape.events.pop()  # it never was ready
    tape.strikes(3, "kill", "core-0").at(30, "alive", yes=False, s=25.0)
    tape.at(50, "seen", part="front", stack=["poll (zmq/x.py:1)", "serve (own/y.py:2)"], state="S")
    with pytest.raises(Inconclusive) as told:
        tape.judged("E7")
    assert str(told.value) == (
        "core-0 had been killed as the server started, and the front has neither ended nor come to"
        " serve: front waits in serve (own/y.py:2)"
    )
    assert tape.ends(51, code=1).judged("E7").counts == {"ends": 1}


def test_e7_a_front_that_comes_to_serve_again_need_not_end() -> None:
    tape = ServerTape()
    tape.events.pop()
    tape.strikes(3, "kill", "core-0").at(9, "alive", yes=True, s=6.0)
    assert tape.judged("E7").counts == {"ends": 0}
