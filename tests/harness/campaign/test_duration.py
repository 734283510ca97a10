"""Budgets as a person writes them."""

from __future__ import annotations

import pytest

from killpoint.campaign import duration
from killpoint.cli import main


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("8h", 28800), ("90m", 5400), ("1h30m", 5400), ("45s", 45), ("45", 45), ("0.5m", 30)],
)
def test_a_budget_is_read_with_its_units(text: str, seconds: float) -> None:
    assert duration.parse(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "8 h", "h", "-3m", "8d", "inf", "1.2.3s"])
def test_what_is_no_time_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["campaign", f"--budget={text}"]) == 2
    assert "expected such as 8h" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"), [(28799, "7 h 59 min"), (200, "3 min 20 s"), (4.4, "4 s"), (-1, "0 s")]
)
def test_a_time_is_shown_by_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration.show(seconds) == text
