"""The model of a pipe says of each arrival what it was."""

from __future__ import annotations

from killpoint.systems.pipe.model import PipeLane, Sent


def lane(*accepted: bool) -> PipeLane:
    return PipeLane([Sent(f"d{place}", well) for place, well in enumerate(accepted)])


def test_what_was_accepted_comes_once_and_in_order() -> None:
    model = lane(True, True)
    assert model.due() == 0
    assert [model.take("d0"), model.take("d1")] == ["", ""]
    assert model.due() is None
    assert model.take("d1") == "duplicate"


def test_an_accepted_one_cannot_be_passed_and_a_refused_one_can() -> None:
    model = lane(True, False, True, True)
    assert [model.take("d0"), model.take("d2")] == ["", ""]
    model = lane(True, True, True)
    assert model.take("d2") == "skipped"
    assert model.missed == [0, 1]
    assert model.take("d1") == "reordered"


def test_equal_ones_are_told_apart_by_their_places() -> None:
    model = PipeLane([Sent("none", True), Sent("d1", True), Sent("none", True)])
    assert [model.take(word) for word in ("none", "d1", "none")] == ["", "", ""]
    assert model.take("x") == "unknown"
