"""Programs that a generator draws, the same ones each time."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from killpoint.scenario import Scenario

Programs = Callable[[str, int], st.SearchStrategy[Scenario]]


def drawn(strategy: Programs, case: str, count: int) -> list[Scenario]:
    """So many programs of a case."""
    found: list[Scenario] = []

    @settings(
        max_examples=count,
        database=None,
        derandomize=False,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
    )
    @seed(0)
    @given(strategy(case, 7))
    def take(scenario: Scenario) -> None:
        found.append(scenario)

    take()
    return found
