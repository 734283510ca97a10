"""An error names a rank if a person can read off it which one is meant."""

from __future__ import annotations

import pytest

from killpoint.checkers.error_names_rank import names_one_of, ranks_named


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("rank 2 died", {2}),
        ("RankGone: rank-2 did not come", {2}),
        ("waited for ranks 1 and 2", {1, 2}),
        ("missing ranks [0, 12]", {0, 12}),
        ("rank=3, peer 4", {3, 4}),
        ("PeerDied: member 1 (pid 77) was killed", {1}),
    ],
)
def test_a_rank_with_its_number_is_named(text: str, ranks: set[int]) -> None:
    assert ranks_named(text) == ranks


@pytest.mark.parametrize(
    "text",
    [
        "Barrier timed out after 2.00 seconds",
        "wait timeout after 2000ms, keys: /send_to/1/2",
        "connection to 127.0.0.1:29500 was reset (utils.py:2)",
        "some rank is missing",
        "",
    ],
)
def test_a_number_alone_names_nobody(text: str) -> None:
    assert ranks_named(text) == set()


def test_one_of_those_that_are_missing_is_enough() -> None:
    assert names_one_of("rank 2 is late", [1, 2])
    assert not names_one_of("rank 0 is late", [1, 2])
