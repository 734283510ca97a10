"""The plan: what is played next, and how deep."""

from __future__ import annotations

from killpoint.campaign.history import CampaignHistory
from killpoint.campaign.item import Item, of_round
from killpoint.campaign.journal import Begun, Ended
from killpoint.campaign.plan import Plan
from killpoint.cases import CASES, select

_THREE = ["R1/two-readers", "Q6/writer-killed-at-stores", "Q6/writer-dies-after-overflow-marker"]


def _always(_item: Item) -> bool:
    return True


def _played(plan: Plan, past: CampaignHistory, count: int) -> list[Item]:
    """The next items, one after another; those of Q6 take three times as long."""
    items: list[Item] = []
    while len(items) < count and (item := plan.next(_always)) is not None:
        past.take(Begun(0.0, item))
        plan.begin(item)
        swept = item.invariant == "Q6"
        past.take(Ended(0.0, item.key, "held", 3.0 if swept else 1.0, swept=swept))
        plan.leave(item, again=False)
        items.append(item)
    return items


def test_the_first_round_is_what_check_plays_every_case_once() -> None:
    past = CampaignHistory()
    items = _played(Plan(CASES, 5, past), past, len(CASES))
    assert {item.case for item in items} == {case.id for case in CASES}
    assert {(i.round, i.seed, i.full, i.depth) for i in items} == {(0, 5, False, "line")}


def test_afterwards_each_invariant_has_the_same_share_of_time() -> None:
    past = CampaignHistory()
    _played(Plan(select(_THREE), 0, past), past, 42)
    assert abs(past.shares["R1"] - past.shares["Q6"]) <= 3.0


def test_rounds_go_deeper_with_seeds_of_their_own() -> None:
    rounds = [of_round("Q6/x", number, 0, swept=True) for number in range(7)]
    assert [(i.full, i.depth) for i in rounds] == [
        (False, "line"),
        (False, "line"),
        (True, "line"),
        (False, "opcode"),
        (False, "line"),
        (True, "line"),
        (True, "opcode"),
    ]
    assert len({item.seed for item in rounds}) == 7
    assert rounds == [of_round("Q6/x", number, 0, swept=True) for number in range(7)]
    assert of_round("Q6/x", 3, 0, swept=False).depth == "line"


def test_nothing_is_begun_twice_and_what_is_given_back_comes_again() -> None:
    past = CampaignHistory()
    plan = Plan(select(_THREE), 0, past)
    first = plan.next(_always)
    assert first is not None
    plan.begin(first)
    second = plan.next(_always)
    assert second not in (None, first)
    plan.leave(first, again=True)
    assert plan.next(_always) == first


def test_what_ended_out_of_turn_is_not_played_again() -> None:
    past = CampaignHistory()
    plan = Plan(select(["R1/two-readers"]), 0, past)
    slow = plan.next(_always)
    assert slow is not None
    plan.begin(slow)
    (other,) = _played(plan, past, 1)
    after = plan.next(_always)
    assert after is not None
    assert (slow.round, other.round, after.round) == (0, 1, 2)


def test_a_resumed_plan_goes_on_where_the_journal_ends() -> None:
    whole, past = CampaignHistory(), CampaignHistory()
    items = _played(Plan(select(_THREE), 0, whole), whole, 12)
    before = _played(Plan(select(_THREE), 0, past), past, 5)
    assert before + _played(Plan(select(_THREE), 0, past), past, 7) == items


def test_an_item_that_does_not_fit_makes_room_for_one_that_does() -> None:
    past = CampaignHistory()
    plan = Plan(select(_THREE[1:]), 0, past)
    item = plan.next(lambda item: item.case != _THREE[1])
    assert item == Item(_THREE[2])
    assert plan.next(lambda item: item.seed < 0) is None


def test_a_new_finding_is_shrunk_before_anything_else_and_once() -> None:
    past = CampaignHistory()
    plan = Plan(select(_THREE), 0, past)
    shrinks = Item(_THREE[0], shrinks="R1/two-readers:lost:00")
    plan.shrink(shrinks)
    plan.shrink(shrinks)
    assert _played(plan, past, 2)[0] == shrinks
    plan.shrink(shrinks)
    assert plan.next(_always) != shrinks
