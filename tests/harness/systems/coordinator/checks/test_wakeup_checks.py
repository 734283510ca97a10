"""C2 of a coordinator alone: all but the one with the request must be told."""

from __future__ import annotations

from killpoint.systems.coordinator.checks.wakeups import Heard, Told, check_request_wakes_all


def test_each_other_engine_must_be_told_of_a_wave() -> None:
    assert check_request_wakes_all(Heard(3, 1, [Told(0, 1)])) is None
    assert check_request_wakes_all(Heard(3, 1, [Told(0, 2), Told(0, 0)])) is None
    nobody, one = (
        check_request_wakes_all(Heard(2, 1)),
        check_request_wakes_all(Heard(3, 1, [Told(0, 2)])),
    )
    assert nobody is not None
    assert nobody.kind == "lost"
    assert one is not None
    assert "does not wake engine-2" in one.cause
