"""A jump moves the wall clock of a process, and no other clock."""

from __future__ import annotations

import time

import pytest

from killpoint.runner.environment.clock import jump


@pytest.fixture(autouse=True)
def clock_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", time.time)
    monkeypatch.setattr(time, "time_ns", time.time_ns)
    monkeypatch.setattr("killpoint.runner.environment.clock._moved", 0.0)


@pytest.mark.parametrize("hours", [2, -2])
def test_the_wall_clock_goes_on_from_another_hour(hours: int) -> None:
    before, steady = time.time(), time.monotonic()
    assert jump(hours * 3600) == pytest.approx(hours * 3600, abs=5)
    assert time.time() - before == pytest.approx(hours * 3600, abs=5)
    assert time.time_ns() / 1e9 == pytest.approx(time.time(), abs=5)
    assert time.monotonic() - steady < 5


def test_jumps_add_up() -> None:
    before = time.time()
    jump(3600)
    jump(-3600)
    assert time.time() - before == pytest.approx(0, abs=5)
