"""How long clients wait: for what begins anew where parts are started again, and else not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from killpoint.systems.server.driver import Driver


def _patience(*, survives: bool, answered_in: float) -> float:
    """Of a client with 60 s, when start and control took 46 s and ``answered_in``."""
    driver = Driver.__new__(Driver)
    vars(driver)["_program"] = SimpleNamespace(survives=survives)
    vars(driver).update(_took=46.0 + answered_in, _answered_in=answered_in)
    return driver._patience(60.0)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("survives", "answered_in", "expected"),
    [(False, 2.0, 64.0), (True, 2.0, 156.0), (False, 0.0, 152.0)],
)
def test_the_time_of_a_start_is_owed_where_one_may_come(
    survives: bool, answered_in: float, expected: float
) -> None:
    assert _patience(survives=survives, answered_in=answered_in) == expected
