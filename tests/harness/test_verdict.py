"""From cases to a verdict: violated wins, what is missing never holds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from killpoint.cases import CASES
from killpoint.errors import CannotWork
from killpoint.invariant import Invariant
from killpoint.invariants import CATALOGUE
from killpoint.judgement.judge import Judgement, _asked_whole, _ids, _verdict, judge
from killpoint.runner.stage import Stage
from killpoint.verdict import (
    CaseOutcome,
    InvariantVerdict,
    Rate,
    VerdictWord,
    case_strength,
    combine,
    counted,
    failure_class,
    least,
    pace,
    shortfall,
)

_ITEM = Invariant("R3", "in order", ("queue",), {"cases": 2, "messages": 10})


def _case(outcome: Any = "held", name: str = "a", **more: Any) -> CaseOutcome:
    more.setdefault("runs", 1)
    return CaseOutcome(f"R3/{name}", "R3", outcome, **more)


def _held(messages: int = 5) -> CaseOutcome:
    return _case(counts={"messages": messages})


@pytest.mark.parametrize(
    ("outcome", "kind", "by_harness", "word"),
    [
        ("held", None, False, None),
        ("violated", "hang", False, "hang"),
        ("inconclusive", None, False, "inconclusive"),
        ("inconclusive", None, True, "infrastructure"),
        ("unsupported", None, False, "unsupported"),
    ],
)
def test_each_outcome_but_held_has_a_class(
    outcome: Any, kind: Any, by_harness: bool, word: str | None
) -> None:
    assert failure_class(outcome, kind, by_harness=by_harness) == word


def test_cases_that_held_with_the_minimum_reached_hold() -> None:
    verdict = combine(_ITEM, [_held(), _held()], [])
    assert verdict.verdict == "holds"
    assert "10 messages" in verdict.strength
    assert "below" not in verdict.strength


def test_what_several_cases_left_out_is_told_once() -> None:
    cases = [_held(), _held()]
    for case in cases:
        case.searched.append("one of two workers in each cell")
    assert combine(_ITEM, cases, []).strength.count("one of two workers") == 1


@pytest.mark.parametrize("cases", [[_held(50)], [_held(4), _held(5)]])
def test_below_its_minimum_an_invariant_is_inconclusive_and_says_by_how_much(
    cases: list[CaseOutcome],
) -> None:
    verdict = combine(_ITEM, cases, [])
    assert verdict.verdict == "inconclusive"
    assert "below minimum" in verdict.strength


def test_only_cases_that_came_to_an_end_count_towards_the_minimum() -> None:
    doubtful = _case("inconclusive", counts={"messages": 90})
    assert shortfall(_ITEM, [_held(), doubtful]) == "1 of 2 cases, 5 of 10 messages"


@pytest.mark.parametrize("others", [[], ["held"], ["inconclusive"], ["unsupported"]])
@pytest.mark.parametrize("lacking", [[], ["queue"]])
@pytest.mark.parametrize("whole", [True, False])
def test_violated_wins_over_everything(others: list[str], lacking: list[str], whole: bool) -> None:
    cases = [*(_case(word) for word in others), _case("violated", kind="lost")]
    assert combine(_ITEM, cases, lacking, whole=whole).verdict == "violated"


@pytest.mark.parametrize("words", [[], ["held", "held"], ["inconclusive"]])
@pytest.mark.parametrize("whole", [True, False])
def test_a_target_that_lacks_a_capability_is_unsupported(words: list[str], whole: bool) -> None:
    verdict = combine(_ITEM, [_case(word) for word in words], ["slots"], whole=whole)
    assert verdict.verdict == "unsupported"
    assert "target lacks slots" in verdict.strength


def test_cases_that_are_all_unsupported_make_it_unsupported() -> None:
    assert combine(_ITEM, [_case("unsupported")], []).verdict == "unsupported"


@pytest.mark.parametrize("whole", [True, False])
def test_one_inconclusive_case_makes_it_inconclusive(whole: bool) -> None:
    cases = [_held(), _held(), _case("inconclusive")]
    assert combine(_ITEM, cases, [], whole=whole).verdict == "inconclusive"


@pytest.mark.parametrize("whole", [True, False])
def test_nothing_that_ran_never_holds(whole: bool) -> None:
    verdict = combine(_ITEM, [], [], whole=whole)
    assert verdict.verdict == "inconclusive"


def test_a_case_that_the_machine_does_not_permit_lowers_no_verdict_and_is_told() -> None:
    verdict = combine(_ITEM, [_held(), _held(), _case("unsupported", by_machine=True)], [])
    assert verdict.verdict == "holds"
    assert "1 case unsupported by this machine" in verdict.strength
    assert combine(_ITEM, [_case("unsupported", by_machine=True)], []).verdict == "unsupported"


def test_a_part_is_called_a_part() -> None:
    verdict = combine(_ITEM, [_held()], [], whole=False)
    assert verdict.verdict == "holds"
    assert "a part of its cases" in verdict.strength


def test_the_strength_says_how_many_faults_struck() -> None:
    cases = [_case(runs=20, struck=19, counts={"messages": 9}), _held()]
    assert "19 of 20 faults struck" in combine(_ITEM, cases, []).strength


def test_a_play_that_was_struck_and_said_nothing_is_one_of_those_with_a_fault() -> None:
    said = CaseOutcome("Q1/a", "Q1", "held", runs=2, struck=2)
    mute = CaseOutcome("Q1/b", "Q1", "inconclusive", runs=0, struck=1)
    assert "3 of 3 faults struck" in combine(_ITEM, [said, mute], []).strength
    assert case_strength(mute) == "1 of 1 faults struck"


# -- exit status ----------------------------------------------------------------------------


def _judgement(*words: VerdictWord, id: str = "R3", runs: int = 1) -> Judgement:
    verdicts = [InvariantVerdict(id, "MUST", word, "", [_case(runs=runs)]) for word in words]
    return Judgement("t", "1", [], 0, "cpu", False, verdicts)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["holds"], 0),
        (["holds", "unsupported"], 0),
        (["holds", "inconclusive"], 3),
        (["inconclusive", "violated"], 1),
        ([], 3),
    ],
)
def test_exit_status_of_check(words: list[VerdictWord], status: int) -> None:
    assert _judgement(*words).status() == status


def test_asked_for_something_and_ran_nothing_is_3() -> None:
    assert _judgement("unsupported", runs=0).status() == 3


@pytest.mark.parametrize("ran", [[], [_held(1)], [_held(), _held()], [_case("unsupported")]])
@pytest.mark.parametrize("only", [[], ["R3"], ["R3/a", "R3/left-out"]])
def test_an_invariant_of_which_the_budget_left_a_case_out_does_not_hold(
    ran: list[CaseOutcome], only: list[str]
) -> None:
    whole = _asked_whole("R3", only, (1, 1), None)
    verdict = _verdict(_ITEM, ran, ["queue"], whole, ["R3/left-out", "Q6/other"])
    assert verdict.verdict == "inconclusive"
    assert verdict.strength.endswith("left out: 1 case")


def test_what_was_violated_or_cannot_be_asked_is_so_whatever_was_left_out() -> None:
    out = ["R3/b", "R3/c"]
    broken = _verdict(_ITEM, [_case("violated", kind="lost")], ["queue"], True, out)
    assert (broken.verdict, _verdict(_ITEM, [], [], True, out).verdict) == (
        "violated",
        "unsupported",
    )
    assert "left out: 2 cases" in broken.strength


def test_a_shard_speaks_only_of_the_cases_it_has_and_as_of_a_part() -> None:
    mine = [case for case in CASES if case.id == "R3/stream"]
    assert _ids([], mine, (1, 3), None) == {"R3"}
    assert _ids([], mine, (1, 1), "process") == {"R3"}
    assert _ids(["R3", "R5"], mine, (1, 3), None) == {"R3"}
    assert not _asked_whole("R3", [], (1, 3), None)
    assert not _asked_whole("R5", [], (1, 1), "process")
    assert _asked_whole("R5", [], (1, 1), "simulated")


def test_all_of_it_speaks_of_every_invariant_or_of_those_asked_for() -> None:
    assert _ids([], CASES, (1, 1), None) == {item.id for item in CATALOGUE}
    assert _ids(["R5", "Q9/x"], [], (1, 1), None) == {"R5", "Q9"}


def test_a_machine_that_fails_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Stage, "__init__", full)
    with pytest.raises(CannotWork, match="No space left"):
        judge("refengine", ["R3"], jobs=1)


def test_a_sweep_says_how_fast_it_crashed_in_its_strength() -> None:
    swept = _case(name="killed-anywhere", runs=41, crash_runs=41, crash_seconds=1.5)
    assert pace(swept) == "killed-anywhere 27 crash runs/s"
    assert pace(swept) in combine(_ITEM, [swept, _held()], []).strength


def test_a_slow_sweep_is_told_with_a_decimal_and_a_few_crashes_are_none() -> None:
    assert pace(_case(crash_runs=10, crash_seconds=16.0)) == "a 0.6 crash runs/s"
    assert pace(_case(crash_runs=9, crash_seconds=0.1)) == ""
    assert pace(_case(crash_runs=0)) == ""


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [
        (0, 60, 0.0, 0.0596),
        (2, 60, 0.0041, 0.1153),
        (60, 60, 0.9404, 1.0),
        (5, 2000, 0.0008, 0.0058),
    ],
)
def test_a_rate_has_its_exact_interval(hits: int, trials: int, low: float, high: float) -> None:
    """By Clopper and Pearson; figures of R's binom.test."""
    rate = Rate("it hung", "kills", hits, trials)
    assert rate.low == pytest.approx(low, abs=1e-4)
    assert rate.high == pytest.approx(high, abs=1e-4)
    assert f"{hits} of {trials} kills" in rate.words()


def test_a_rate_is_a_part_of_the_strength() -> None:
    rate = Rate("a survivor was harmed", "kills", 0, 60)
    case = CaseOutcome("Q7/x", "Q7", "held", runs=60, rates=[rate])
    assert "a survivor was harmed after 0 of 60 kills (95 %: 0 … 6 %)" in case_strength(case)


@pytest.mark.parametrize(
    ("units", "one"),
    [
        ("runs", "1 run"),
        ("lies", "1 lie"),
        ("boundaries", "1 boundary"),
        ("processes looked at", "1 process looked at"),
        ("crashes", "1 crash"),
        ("orders' states", "1 orders' state"),
    ],
)
def test_a_count_agrees_with_its_noun(units: str, one: str) -> None:
    assert counted(1, units) == one
    assert counted(2, units) == f"2 {units}"


def test_the_minimum_says_what_it_is_where_it_is_judged_another_way() -> None:
    item = msgspec.structs.replace(_ITEM, instead="server", then={"cases": 1})
    assert least(item) == "2 cases, 10 messages; of a server: 1 case"
    assert shortfall(item.asked_of({"server"}), [_held()]) == ""
    assert shortfall(item.asked_of({"queue"}), [_held()]) != ""
