"""The specification of a group: a lane gives what was sent in order, a barrier waits for all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from killpoint.systems.group.model import BarrierModel, Lane


@given(st.lists(st.integers(0, 99), unique=True))
def test_a_lane_that_gives_all_in_order_gives_nothing_wrong(sent: list[int]) -> None:
    lane = Lane(sent)
    assert [lane.take(number) for number in sent] == [""] * len(sent)
    assert lane.due() is None


def test_what_comes_too_soon_was_skipped_to_and_what_it_left_behind_is_reordered() -> None:
    lane = Lane([4, 5, 6])
    assert lane.take(5) == "skipped"
    assert lane.take(4) == "reordered"
    assert lane.due() == 6


def test_what_comes_again_is_a_duplicate_and_what_nobody_sent_is_unknown() -> None:
    lane = Lane([4, 5])
    assert [lane.take(4), lane.take(4), lane.take(9), lane.take(5)] == [
        "",
        "duplicate",
        "unknown",
        "",
    ]


def test_a_meeting_misses_who_has_not_come() -> None:
    meeting = BarrierModel(3)
    meeting.come(0)
    meeting.come(2)
    meeting.come(2)
    assert meeting.missing() == [1]
    meeting.come(1)
    assert meeting.missing() == []
