"""Q12 on tapes: a leak is told from noise, from settling, and from too little evidence."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from synthetic import Tape, convicted, judged

from killpoint.checkers.finding import Inconclusive

_EACH = 20


def _tape(weights: Callable[[int], float], windows: int = 8, idle: int = 0) -> Tape:
    """Eight windows of messages, each weighed, with two idle looks before them."""
    tape = Tape()
    for rss in (0, idle):
        tape.tell("director", "weight", target="writer", rss=1 << 27 | rss, pss=1)
    for window in range(windows):
        for number in range(_EACH):
            tape.sent(window * _EACH + number)
        rss = (1 << 27) + int(weights((window + 1) * _EACH))
        tape.tell("director", "weight", target="writer", rss=rss, pss=1)
    return tape


def test_a_kibibyte_a_message_is_growth() -> None:
    found = convicted("Q12", _tape(lambda messages: 1024 * messages))
    assert found.kind == "growth"
    assert "writer's memory grew by 1024 bytes a message" in found.cause


def test_flat_memory_is_held_and_counted() -> None:
    found = judged("Q12", _tape(lambda _: 0))
    assert found.violations == []
    assert found.counts == {"roles weighed": 1}


@pytest.mark.parametrize("seed", range(20))
def test_noise_of_pages_is_no_growth(seed: int) -> None:
    noise = random.Random(seed)
    tape = _tape(lambda _: 4096 * noise.randrange(3), idle=8192)
    assert judged("Q12", tape).violations == []


@pytest.mark.parametrize("until", [60, 80, 100])
def test_what_settles_is_no_growth(until: int) -> None:
    assert judged("Q12", _tape(lambda messages: 2000 * min(messages, until))).violations == []


def test_one_step_is_no_growth() -> None:
    tape = _tape(lambda messages: 400_000 if messages > 100 else 0)
    assert judged("Q12", tape).violations == []


def test_growth_no_larger_than_the_idle_control_is_not_told_apart() -> None:
    tape = _tape(lambda messages: 1024 * messages, idle=200_000)
    assert judged("Q12", tape).violations == []


@pytest.mark.parametrize("windows", [1, 6])
def test_too_few_windows_are_no_evidence(windows: int) -> None:
    with pytest.raises(Inconclusive, match="5 windows"):
        judged("Q12", _tape(lambda _: 0, windows))


def test_a_stream_without_an_idle_look_has_no_control() -> None:
    tape = _tape(lambda _: 0)
    del tape.events[1]
    with pytest.raises(Inconclusive, match="while idle"):
        judged("Q12", tape)
