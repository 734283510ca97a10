"""A session: intents before acts, nothing lost, nothing twice, whatever becomes of the players."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_pool import CASES, Answer, session

from killpoint.campaign.findings import Findings
from killpoint.campaign.history import CampaignHistory
from killpoint.campaign.item import Item
from killpoint.campaign.journal import Begun, Ended, GivenBack, Journal, Session, read
from killpoint.campaign.work_order import Found, Lost, Target, WorkOrder, WorkResult, failed
from killpoint.errors import CannotWork
from killpoint.verdict import CaseOutcome

_SCENARIO = "title = 'it'\n"


def _held(order: WorkOrder) -> WorkResult:
    return WorkResult(order.item.key, "held", seconds=0.1, plays=1)


def _violated(order: WorkOrder) -> WorkResult:
    if order.item.shrinks:
        return WorkResult(
            order.item.key, "reproduced", shrunk="title = 'small'\n", shrinkage="less"
        )
    outcome = CaseOutcome(order.item.case, "R1", "violated", "lost", f"of {order.item.seed} one")
    played = WorkResult(order.item.key, "violated", target=Target("t", "1", []))
    played.found.append(Found(outcome, _SCENARIO, {}))
    return played


def test_every_intent_is_written_before_its_result_and_what_is_open_is_given_back(
    tmp_path: Path,
) -> None:
    session(tmp_path, _held, 9)
    entries = read(tmp_path / "journal.jsonl")
    begun = [entry.item.key for entry in entries if isinstance(entry, Begun)]
    done = [entry.key for entry in entries if isinstance(entry, Ended | GivenBack)]
    assert begun == done
    assert [e.key for e in entries if isinstance(e, GivenBack)] == begun[-1:]
    assert CampaignHistory(entries).open == {}


def test_sessions_together_play_what_one_would_have_played(tmp_path: Path) -> None:
    (whole := tmp_path / "whole").mkdir()
    (parts := tmp_path / "parts").mkdir()
    session(whole, _held, 12)
    for _ in range(3):
        session(parts, _held, 6)
    ended, of_one = (
        [entry.key for entry in read(folder / "journal.jsonl") if isinstance(entry, Ended)]
        for folder in (parts, whole)
    )
    assert len(ended) == len(set(ended)) == 15
    assert set(ended[: len(of_one)]) == set(of_one)


def test_a_lost_item_is_begun_again_and_after_three_times_told_as_infrastructure(
    tmp_path: Path,
) -> None:
    def answer(order: WorkOrder) -> WorkResult | Lost:
        bad = order.item == Item(CASES[0])
        return Lost(order.item.key, "the worker died") if bad else _held(order)

    pool = session(tmp_path, answer, 8)
    assert pool.began.count(Item(CASES[0])) == 3
    ended = CampaignHistory(read(tmp_path / "journal.jsonl")).ended[Item(CASES[0]).key]
    assert (ended.word, ended.cause) == (
        "infrastructure",
        "given up after 3 tries: the worker died",
    )


def test_a_failure_of_the_harness_is_an_item_and_not_the_end(tmp_path: Path) -> None:
    pool = session(tmp_path, lambda order: failed(order.item, "it broke"), 6)
    words = {
        entry.word for entry in CampaignHistory(read(tmp_path / "journal.jsonl")).ended.values()
    }
    assert (len(set(pool.began)), words) == (6, {"infrastructure"})


def test_a_finding_is_kept_once_and_shrunk_from_its_first_scenario(tmp_path: Path) -> None:
    pool = session(tmp_path, _violated, 9)
    (found,) = [f for f in Findings(tmp_path / "findings").all() if f.case.id == CASES[0]]
    assert len(found.seen) > 1
    assert found.replay is not None
    assert found.replay.read_text() == "title = 'small'\n"
    (order,) = [each for each in pool.orders if each.item.shrinks.startswith(CASES[0])]
    assert order.scenario == _SCENARIO
    assert order.convicted is not None
    assert order.convicted.kind == "lost"


def test_a_finding_that_was_not_shrunk_yet_is_the_first_thing_of_the_nextsession(
    tmp_path: Path,
) -> None:
    session(tmp_path, _violated, 3)  # the shrinking has been begun, and is given back
    pool = session(tmp_path, _violated, 2)
    assert [item.shrinks != "" for item in pool.began[:2]] == [True, True]


def test_an_item_that_ended_the_campaign_three_times_is_not_played_a_fourth_time(
    tmp_path: Path,
) -> None:
    item = Item(CASES[0])
    with Journal(tmp_path / "journal.jsonl") as journal:
        for _ in range(3):  # no word of its end
            journal.add(Session(0.0, 1, 600.0))
            journal.add(Begun(0.0, item))
    pool = session(tmp_path, _held, 4)
    assert item not in pool.began
    assert (
        CampaignHistory(read(tmp_path / "journal.jsonl")).ended[item.key].word == "infrastructure"
    )


def test_examples_of_a_case_are_shared_until_they_would_find_the_same_for_ever(
    tmp_path: Path,
) -> None:
    def folders(answer: Answer) -> set[str]:
        (place := tmp_path / answer.__name__).mkdir()
        orders = session(place, answer, 9).orders
        mine = [each for each in orders if each.item.case == CASES[0] and not each.item.shrinks]
        assert len(mine) > 2
        return {each.examples for each in mine}

    assert len(folders(_held)) == 1
    assert len(folders(_violated)) > 2


def test_a_harness_that_fails_again_and_again_ends_the_campaign_with_its_cause(
    tmp_path: Path,
) -> None:
    with pytest.raises(CannotWork, match="20 items in a row could not be played: no disk"):
        session(tmp_path, lambda order: failed(order.item, "no disk"), 99)
    assert CampaignHistory(read(tmp_path / "journal.jsonl")).open == {}


def test_what_a_target_cannot_do_is_asked_once(tmp_path: Path) -> None:
    def answer(order: WorkOrder) -> WorkResult:
        lacks = order.item.case == CASES[0]
        return WorkResult(order.item.key, "unsupported") if lacks else _held(order)

    pool = session(tmp_path, answer, 9)
    assert [item.case for item in pool.began].count(CASES[0]) == 1
