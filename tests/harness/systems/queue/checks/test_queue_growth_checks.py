"""Q12 on tapes: a leak is told from touches, noise and settling, and from too little evidence."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from synthetic import Tape, convicted, judged

from killpoint.checkers.finding import Inconclusive

_EACH = 1000
_MIB = 1 << 20


def _tape(
    private: Callable[[int], float],
    windows: int = 50,
    *,
    shared: Callable[[int], int] = lambda _: 64 * _MIB,
    mappings: Callable[[int], int] = lambda _: 900,
    rss: Callable[[int], int] = lambda _: 0,
    roomy: Callable[[int], list[tuple[int, int, int]]] = lambda _: [],
) -> Tape:
    """Windows of messages, each weighed; what is private is counted in pages."""
    tape = Tape()
    for window in range(1, windows + 1):
        count = window * _EACH
        tape.tell("writer", "streamed", of="sent", count=_EACH)
        tape.tell("director", "room", target="writer", mappings=roomy(count))
        tape.tell(
            "director",
            "weight",
            target="writer",
            rss=128 * _MIB + rss(count),
            pss=1,
            private=64 * _MIB + int(private(count)) // 4096 * 4096,
            mappings=mappings(count),
            shared=shared(count),
        )
    return tape


@pytest.mark.parametrize("each", [4, 8, 64, 1024])
def test_bytes_that_stay_of_each_message_are_growth(each: int) -> None:
    found = convicted("Q12", _tape(lambda messages: each * messages))
    assert found.kind == "growth"
    assert "writer's private memory grew by " in found.cause
    assert len(found.evidence) >= 3


@pytest.mark.parametrize("each", [0, 1, 1.5])
def test_flat_memory_is_held_and_counted(each: float) -> None:
    found = judged("Q12", _tape(lambda messages: each * messages))
    assert found.violations == []
    assert found.counts == {"roles weighed": 1}


@pytest.mark.parametrize("each", [2.5, 3, 3.5])
def test_between_two_bytes_and_four_nothing_is_said(each: float) -> None:
    with pytest.raises(Inconclusive, match="neither flat nor growth"):
        judged("Q12", _tape(lambda messages: each * messages))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("each", [0, 8])
def test_noise_of_pages_hides_no_leak_and_makes_none(seed: int, each: int) -> None:
    noise = random.Random(seed)
    tape = _tape(lambda messages: each * messages + 4096 * noise.randrange(4))
    assert bool(judged("Q12", tape).violations) == bool(each)


def test_an_interval_that_noise_has_made_wide_says_nothing() -> None:
    noise = random.Random(0)
    with pytest.raises(Inconclusive, match="neither flat nor growth"):
        judged("Q12", _tape(lambda _: noise.randrange(_MIB)))


def test_what_settles_is_no_growth() -> None:
    assert judged("Q12", _tape(lambda messages: 64 * min(messages, 13_000))).violations == []


def test_a_ring_in_a_mapped_file_is_touched_without_growing() -> None:
    tape = _tape(lambda _: 0, rss=lambda messages: 512 * messages)
    assert judged("Q12", tape).violations == []


def test_a_private_ring_that_is_lapped_in_the_warm_up_is_no_growth() -> None:
    def touched(messages: int) -> int:
        return min(512 * messages, 4 * _MIB)

    tape = _tape(touched, roomy=lambda n: [(1 << 40, 4 * _MIB, touched(n))] if n < 8000 else [])
    assert judged("Q12", tape).violations == []


def test_a_private_ring_on_its_first_lap_says_nothing() -> None:
    tape = _tape(lambda n: 512 * n, roomy=lambda n: [(1 << 40, 64 * _MIB, 512 * n)])
    with pytest.raises(Inconclusive, match="for the first time"):
        judged("Q12", tape)


def test_a_leak_beside_a_first_lap_is_growth() -> None:
    tape = _tape(lambda n: 520 * n, roomy=lambda n: [(1 << 40, 64 * _MIB, 512 * n)])
    assert "grew by 8" in convicted("Q12", tape).cause


def test_a_mapping_that_grows_is_not_on_its_first_lap() -> None:
    tape = _tape(lambda n: 16 * n, roomy=lambda n: [(1 << 40, 2 * _MIB + 32 * n, 16 * n)])
    assert "grew by 16" in convicted("Q12", tape).cause


def test_shared_mappings_that_grow_untouched_are_growth() -> None:
    tape = _tape(lambda _: 0, shared=lambda n: 65536 * (n // 2000))
    assert "mappings that can be shared grew by 32" in convicted("Q12", tape).cause


def test_mappings_that_add_up_are_growth_whatever_their_length() -> None:
    tape = _tape(lambda _: 0, mappings=lambda n: 900 + n // 500)
    assert "one mapping more every 500 messages" in convicted("Q12", tape).cause


def test_one_new_mapping_is_none() -> None:
    tape = _tape(lambda _: 0, mappings=lambda n: 900 + (n > 30_000))
    assert judged("Q12", tape).violations == []


@pytest.mark.parametrize("windows", [1, 11])
def test_too_few_windows_are_no_evidence(windows: int) -> None:
    with pytest.raises(Inconclusive, match="10 windows"):
        judged("Q12", _tape(lambda _: 0, windows))


def test_windows_without_messages_are_none() -> None:
    tape = _tape(lambda _: 0)
    tape.events = [event for event in tape.events if event.kind != "streamed"]
    with pytest.raises(Inconclusive, match="10 windows"):
        judged("Q12", tape)
