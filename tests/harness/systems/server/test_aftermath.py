"""What a fault did to a server, read off records that are told in a few words."""

from __future__ import annotations

import pytest
from server_tape import ServerTape

from killpoint.bench.recovery.aftermath import Aftermath, FrontExit, Health, Left, aftermath
from killpoint.checkers.finding import Inconclusive
from killpoint.history.record import History
from killpoint.systems.server.record import life


def _told(tape: ServerTape, left: Left | None = None) -> Aftermath:
    return aftermath(life(History(tape.events)), left or Left())


def _up() -> ServerTape:
    """A server with a control of 100 characters a second, and a load that gets as much."""
    tape = ServerTape().asks(1.0, "whole", 3.0, control=True).streams(1.0, 6.0, 100)
    return tape.goes_on(5.0, 6.0, pieces=1)


def test_what_died_and_ended_all_is_told_with_its_times() -> None:
    tape = _up().asks(5.0, "error", 9.0).asks(5.0, "torn", 8.0).strikes(6.0, "kill", "worker-0")
    tape.goes_on(6.1, 8.0).goes_on(8.0, 8.5, health=503).at(8.5, "health", status=0)
    tape.asks(7.0, "refused", 9.5).ends(10.0, code=0).at(10.0, "load-ended")
    told = _told(tape, Left(2, 1 << 20, 3))
    assert (told.part, told.fault) == ("worker-0", "kill")
    assert (told.noticed_s, told.noticed_by) == (2.0, "an error")
    assert told.health == [Health(0.0, 200), Health(2.0, 503), Health(2.5, 0)]
    assert (told.in_flight, told.later) == ({"error": 1, "torn": 1}, {"refused": 1})
    assert told.end == FrontExit(4.0, code=0)
    assert told.whole_s is None
    assert told.silence_s == pytest.approx(2.4, abs=0.15)
    assert told.left == Left(2, 1 << 20, 3)


def test_a_part_that_is_started_again_is_noticed_by_that_and_text_comes_as_before() -> None:
    tape = _up().asks(5.0, "whole", 12.0).strikes(6.0, "kill", "worker-0")
    tape.at(6.2, "part-ended", part="worker-0", signal=9)
    tape.tree(6.2, "core-0", "front").tree(7.0, "core-0", "front", "worker-0")
    tape.streams(8.0, 12.0, 100).at(12.0, "load-ended").at(12.5, "told-to-end").ends(13.0, code=0)
    told = _told(tape)
    assert (told.noticed_s, told.noticed_by) == (0.2, "a restart")
    assert told.whole_s == pytest.approx(2.0, abs=0.7)
    assert told.end is None  # the play ended it
    assert told.in_flight == {"whole": 1}


def test_of_what_stands_still_nobody_could_know() -> None:
    tape = _up().asks(5.0).strikes(6.0, "stop", "worker-0").goes_on(6.0, 30.0)
    told = _told(tape.at(30.0, "load-ended"))
    assert (told.noticed_s, told.noticed_by, told.whole_s) == (None, "", None)
    assert told.health == [Health(0.0, 200)]
    assert told.in_flight == {"open": 1}
    assert told.silence_s == pytest.approx(23.9, abs=0.2)


def test_the_longest_pause_of_each_stream_in_flight_is_its_stall() -> None:
    tape = _up()
    for n, gap in enumerate((1.5, 4.0), 100):
        tape.at(5.0, "ask", n=n, phase="load", stream=True)
        how = {"end": "whole", "why": "", "status": 200, "gap": int(gap * 1e9)}
        tape.at(9.0, "answer", n=n, **how)
    tape.at(5.0, "ask", n=102, phase="load", stream=False)
    tape.at(9.0, "answer", n=102, end="whole", why="", status=200, gap=int(9e9))
    told = _told(tape.strikes(6.0, "stop", "core-0").at(10.0, "load-ended"))
    assert told.stalls_s == [1.5, 4.0]


def test_readiness_is_told_where_it_was_asked() -> None:
    tape = _up().at(5.9, "readiness", status=200).strikes(6.0, "kill", "worker-0")
    tape.at(6.5, "readiness", status=503).at(8.0, "readiness", status=200).at(9.0, "load-ended")
    assert _told(tape).ready == [Health(0.0, 200), Health(0.5, 503), Health(2.0, 200)]


def test_without_a_fault_there_is_nothing_to_tell() -> None:
    with pytest.raises(Inconclusive, match="no fault struck"):
        _told(_up())
    with pytest.raises(Inconclusive, match="nobody asked"):
        _told(_up().at(6.0, "load-ended").strikes(7.0, "kill", "front"))


def test_what_the_play_did_in_the_end_is_nothing_that_the_fault_did() -> None:
    """A part stands still, and 25 s later the play tells the server to end, with requests open."""
    tape = _up().asks(5.0, "error", 32.0).asks(5.0, "whole", 9.0).strikes(6.0, "stop", "worker-0")
    tape.goes_on(6.0, 31.0).at(31.0, "told-to-end").at(31.5, "health", status=503)
    tape.asks(31.5, "refused", 31.6).tree(32.0).ends(32.0, code=1)
    told = _told(tape)
    assert (told.noticed_s, told.noticed_by, told.end) == (None, "", None)
    assert (told.in_flight, told.later) == ({"open": 1, "whole": 1}, {})
    assert told.health == [Health(0.0, 200)]
    assert told.looked_s == 25.0
