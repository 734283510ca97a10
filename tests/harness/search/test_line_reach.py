"""Reach of a case: what plays add to it, and how a play scores."""

from __future__ import annotations

from killpoint.search.reach import CaseReach, Reach


def test_a_line_scores_the_less_the_more_earlier_plays_have_run_it() -> None:
    before = CaseReach(3, {"a.py": {1: 3, 2: 1}})
    reach = Reach(before, steers=True)
    reach.take({"a.py": [1, 2, 3], "b.py": [1]}, 0)
    assert reach.scores() == {"rarely reached lines": 1 / 4 + 1 / 2 + 1 + 1}


def test_scores_of_an_items_plays_can_be_compared() -> None:
    reach = Reach(CaseReach(), steers=True)
    for _ in range(2):
        reach.take({"a.py": [1, 2]}, 0)
        assert reach.scores() == {"rarely reached lines": 2.0}


def test_states_of_the_model_score_where_the_judge_counts_them() -> None:
    reach = Reach(CaseReach(), steers=True)
    reach.take({"a.py": [1]}, 7)
    assert reach.scores() == {"rarely reached lines": 1.0, "model states": 7.0}


def test_what_items_have_reached_adds_up() -> None:
    whole = CaseReach(2, {"a.py": {1: 2}}, 5)
    reach = Reach(whole, steers=False)
    reach.take({"a.py": [1, 2]}, 4)
    reach.take({"b.py": [9]}, 3)
    assert reach.added == CaseReach(2, {"a.py": {1: 1, 2: 1}, "b.py": {9: 1}}, 4)
    whole.add(reach.added)
    assert whole == CaseReach(4, {"a.py": {1: 3, 2: 1}, "b.py": {9: 1}}, 5)
