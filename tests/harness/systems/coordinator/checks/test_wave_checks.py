"""C1 to C3 of one state: each rule lets the sound one pass and names what is wrong."""

from __future__ import annotations

from killpoint.systems.coordinator.checks.waves import Engine, at_rest, leads, met, went_back

IDLE = Engine(wave=1, running=False, unfinished=0, waits=False, steps=0)


def test_who_is_ahead_of_the_coordinator_and_by_how_much() -> None:
    assert leads(3, [4, 0], [3, 2]) is None
    assert "front-end-1 was in wave 4" in leads(3, [3], [3, 4]).cause
    assert "engine-1 was in wave 5" in leads(3, [4, 5], []).cause


def test_a_wave_goes_forward() -> None:
    assert went_back(2, 2) is None
    assert went_back(2, 1).kind == "bad-transition"


def test_at_rest_nobody_has_requests_or_waits() -> None:
    assert list(at_rest([IDLE, IDLE])) == []
    (stranded,) = at_rest([IDLE, Engine(1, False, 2, False, 0)])
    assert stranded[0] == "C2"
    assert stranded[1].cause == "2 requests of engine-1 stay unstepped for ever"
    (waiting,) = at_rest([IDLE, Engine(1, True, 0, True, 1)])
    assert waiting[0] == "C3"
    assert waiting[1].kind == "hang"


def test_those_that_meet_are_in_one_step_of_one_wave() -> None:
    step = Engine(1, True, 0, True, 2)
    assert met([step, step]) is None
    assert met([step, Engine(2, True, 0, True, 2)]) is not None
    assert met([step, Engine(1, True, 0, True, 1)]) is not None
