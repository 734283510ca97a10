"""A seed draws the same programs whatever modules are loaded; other draws are left as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from killpoint.search.drawing import by_seed_alone


def _draw(context: AbstractContextManager[None]) -> list[int]:
    drawn: list[int] = []

    @settings(max_examples=60, database=None, derandomize=False, deadline=None)
    @seed(5)
    @given(st.lists(st.integers(0, 1 << 40), min_size=5))
    def attempt(numbers: list[int]) -> None:
        drawn.extend(numbers)

    with context:
        attempt()
    return drawn


@pytest.fixture
def more_constants(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if other modules had been imported."""
    found = providers._get_local_constants()
    more = type(found)(integers={*found.integers, *range(77, 7_000, 11)})
    monkeypatch.setattr(providers, "_local_constants", more)
    providers.CONSTANTS_CACHE.cache.clear()
    yield
    providers.CONSTANTS_CACHE.cache.clear()


_BY_SEED, _PLAIN = _draw(by_seed_alone()), _draw(nullcontext())


@pytest.mark.usefixtures("more_constants")
def test_other_modules_change_nothing() -> None:
    assert _draw(by_seed_alone()) == _BY_SEED


@pytest.mark.usefixtures("more_constants")
def test_they_change_what_others_draw() -> None:
    assert _draw(nullcontext()) != _PLAIN
    assert len({*_draw(nullcontext())} & {*range(77, 7_000, 11)}) > 3
