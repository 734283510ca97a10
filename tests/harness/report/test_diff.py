"""Two runs: what a gate is to fail for, what it is to doubt, and what is only told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_runs import case, found, hang, stored

from killpoint.cli import main
from killpoint.report.diff import Difference, diff
from killpoint.report.diff_command import lines
from killpoint.verdict import CaseOutcome, Kind, Rate, Violation


def _diff(folder: Path, before: Any, now: Any, **more: Any) -> Difference:
    first = stored(folder / "1", *_list(before))
    return diff(first, stored(folder / "2", *_list(now), **more))


def _list(outcomes: CaseOutcome | list[CaseOutcome]) -> list[CaseOutcome]:
    return outcomes if isinstance(outcomes, list) else [outcomes]


def _unsure(id: str = "Q6/a", **more: Any) -> CaseOutcome:
    return case(id, "inconclusive", cause="not reached", **more)


_HELD, _HUNG, _LACKING = case("Q6/a"), hang("Q6/a"), case("Q6/a", "unsupported", cause="lacks x")
_OTHER = hang("Q6/b")


@pytest.mark.parametrize(
    ("before", "now", "where", "words", "status"),
    [
        (_HELD, _HUNG, "new", ("held", "hang"), 1),
        (_OTHER, [_OTHER, _HUNG], "new", ("not run", "hang"), 1),
        (_unsure(), _HUNG, "new", ("inconclusive", "hang"), 1),
        (_HUNG, hang("Q6/a", "it spins"), "changed", ("hang", "hang"), 1),
        (_HUNG, _HELD, "gone", ("hang", "held"), 0),
        (_HELD, _unsure(), "undecided", ("held", "inconclusive"), 3),
        (_HELD, _unsure(by_harness=True), "undecided", ("held", "infrastructure"), 3),
        (_HELD, _LACKING, "undecided", ("held", "unsupported"), 3),
        ([_HELD, _OTHER], _OTHER, "undecided", ("held", "not run"), 3),
        (_HUNG, _unsure(), "undecided", ("hang", "inconclusive"), 0),
        (_unsure(), _HELD, "decided", ("inconclusive", "held"), 0),
    ],
)
def test_a_case_that_ended_otherwise_is_told_where_it_belongs(
    tmp_path: Path, before: Any, now: Any, where: str, words: tuple[str, str], status: int
) -> None:
    found = _diff(tmp_path, before, now)
    lists = {name: getattr(found, name) for name in ("new", "changed", "gone", "undecided")}
    lists["decided"] = found.decided
    assert [name for name, changes in lists.items() if changes] == [where]
    (change,) = lists[where]
    assert (change.id, change.before, change.after) == ("Q6/a", *words)
    assert found.status() == status


def test_one_bug_with_other_numbers_is_no_difference(tmp_path: Path) -> None:
    again = hang("Q6/a", _HUNG.cause.replace("4.0 s", "9.7 s").replace("reader-0", "reader-1"))
    beside = case("Q6/z", "unsupported")
    found = _diff(tmp_path, [_HUNG, beside], [again, beside])
    assert (found.new, found.changed, found.still, found.status()) == ([], [], 1, 0)


def test_a_cause_that_took_anothers_place_is_told_with_both_signatures(tmp_path: Path) -> None:
    (change,) = _diff(tmp_path, _HUNG, hang("Q6/a", "it spins")).changed
    assert change.was.startswith("Q6/a:hang:")
    assert change.signature not in ("", change.was)
    assert change.cause == "it spins"


def test_verdicts_that_changed_are_told(tmp_path: Path) -> None:
    found = _diff(tmp_path, [_HELD, case("R3/a")], [_HUNG, case("W3/a")])
    assert [(v.id, v.before, v.after) for v in found.verdicts] == [
        ("Q6", "holds", "violated"),
        ("W3", "not run", "holds"),
        ("R3", "holds", "not run"),
    ]


@pytest.mark.parametrize(
    ("before", "now", "weaker"),
    [
        ({"counts": {"points": 41}}, {"counts": {"points": 30}}, True),
        ({"counts": {"points": 41}}, {}, True),
        ({"counts": {"points": 41}}, {"counts": {"points": 40}}, False),
        ({"runs": 20, "struck": 20}, {"runs": 20, "struck": 10}, True),
        ({"runs": 20}, {"runs": 5}, True),
    ],
)
def test_a_case_that_held_with_less_evidence_is_weaker(
    tmp_path: Path, before: Any, now: Any, weaker: bool
) -> None:
    found = _diff(tmp_path, case("Q6/a", **before), case("Q6/a", **now))
    assert bool(found.weaker) is weaker
    assert found.status() == 0


def test_two_targets_releases_seeds_and_budgets_are_told(tmp_path: Path) -> None:
    assert "two targets are compared: own 1.5" in _diff(tmp_path, _HELD, _HELD, target="x").notes[0]
    (note,) = _diff(tmp_path, _HELD, _HELD, version="2").notes
    assert note == "two releases are compared: own 1.5 and 2"
    (note,) = _diff(tmp_path, _HELD, _HELD, left_out=("W3/x",)).notes
    assert note == "the second run left out 1 cases: its budget was spent"


def test_the_command_tells_people_and_scripts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [case(f"R3/c{n}") for n in range(20)]
    _diff(tmp_path, [_HELD, *many], [_HUNG, hang("Q6/b")])
    runs = [str(tmp_path / "1"), str(tmp_path / "2")]
    assert main(["diff", *runs]) == 1
    text = capsys.readouterr().out
    assert "✗ Q6/a: hang, before: held\n  reader-0 still waited after 4.0 s" in text
    assert "  killpoint replay runs/x/replays/Q6-a.toml\n" in text
    assert "… and 8 more like it" in text
    assert text.endswith("2 new, 20 undecided\n")
    assert main(["diff", *runs, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [change["id"] for change in found["new"]] == ["Q6/a", "Q6/b"]
    assert found["second"]["target"] == "own 1.5"
    assert len(found["undecided"]) == 20


def test_what_is_no_run_is_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path / "1", _HELD)
    assert main(["diff", str(tmp_path / "1"), str(tmp_path)]) == 2
    assert "expected the folder of a run" in capsys.readouterr().err


def test_a_run_and_itself_do_not_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path, _HELD, hang("R3/a"))
    assert main(["diff", str(tmp_path), str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("1 violated as before\n")


# -- what depends on a race -----------------------------------------------------------------


def _found(*said: tuple[Kind, str], alone: list[int] | None = None) -> CaseOutcome:
    """A case with these violations."""
    outcome = case("Q6/a", runs=3)
    for kind, cause in said:
        outcome.add(Violation(kind, cause)).alone = alone or []
    return outcome


def _struck(hits: int, trials: int = 60) -> CaseOutcome:
    outcome = _found(("hang", "the writer hung")) if hits else case("Q6/a", runs=trials)
    outcome.rates = [Rate("the writer hung", "kills at random times", hits, trials)]
    return outcome


@pytest.mark.parametrize(("before", "now"), [(0, 2), (2, 0)])
def test_rates_whose_intervals_overlap_do_not_differ(tmp_path: Path, before: int, now: int) -> None:
    found = _diff(tmp_path, _struck(before), _struck(now))
    assert (found.new, found.gone, found.verdicts) == ([], [], [])
    assert found.races == ["Q6/a"]
    assert found.status() == 0


@pytest.mark.parametrize("other", ["duplicate", "crash"])
def test_a_race_that_breaks_the_promise_in_two_ways_is_one(tmp_path: Path, other: Kind) -> None:
    ways: list[CaseOutcome] = []
    for kind in ("lost", other):
        outcome = case("Q13/two-senders", "violated", kind=kind, cause=f"it was {kind}")
        outcome.rates = [Rate("the promise was broken", "plays", 2, 3)]
        ways.append(outcome)
    found = _diff(tmp_path, *ways)
    assert (found.changed, found.races, found.status()) == ([], ["Q13/two-senders"], 0)


def _same_code(folder: Path, before: CaseOutcome, now: CaseOutcome, **unlike: str) -> Difference:
    runs = [stored(folder / name, outcome) for name, outcome in (("1", before), ("2", now))]
    for run, more in zip(runs, ({}, unlike), strict=True):
        run.target.code, run.judge = more.get("code", "c"), more.get("judge", "j")
        run.depth = more.get("depth", "line")
    return diff(*runs)


@pytest.mark.parametrize("pair", [(_HELD, _HUNG), (_HUNG, _HELD), (_HELD, _unsure())])
def test_what_differs_without_a_change_of_the_code_is_chance(
    tmp_path: Path, pair: tuple[CaseOutcome, CaseOutcome]
) -> None:
    found = _same_code(tmp_path, *pair)
    assert (found.new, found.gone, found.undecided, found.verdicts) == ([], [], [], [])
    assert [change.id for change in found.repeated] == ["Q6/a"]
    assert found.status() == 0
    assert "by chance or by the machine: Q6/a" in "\n".join(lines(found))


@pytest.mark.parametrize(
    "unlike", [{"code": "d"}, {"judge": "k"}, {"code": ""}, {"depth": "opcode"}]
)
def test_another_code_or_judge_is_a_change(tmp_path: Path, unlike: dict[str, str]) -> None:
    found = _same_code(tmp_path, _HELD, _HUNG, **unlike)
    assert [change.id for change in found.new] == ["Q6/a"]
    assert (found.repeated, found.status()) == ([], 1)


def test_rates_whose_intervals_are_apart_do(tmp_path: Path) -> None:
    found = _diff(tmp_path, _struck(0), _struck(30))
    assert [change.id for change in found.new] == ["Q6/a"]
    assert found.status() == 1


def test_what_not_every_play_alone_shows_is_a_race(tmp_path: Path) -> None:
    now_and_then = _found(("hang", "it waits"), alone=[1, 3])
    assert _diff(tmp_path, _HELD, now_and_then).races == ["Q6/a"]
    always = _found(("hang", "it waits"), alone=[1, 1])
    assert _diff(tmp_path, _HELD, always).status() == 1


def test_a_case_with_several_violations_is_the_same_if_one_of_them_is(tmp_path: Path) -> None:
    first = _found(("hang", "it waits"), ("late", "it is slow"))
    found = _diff(tmp_path, first, _found(("late", "it is slow")))
    assert (found.still, found.changed) == (1, [])
    other = _diff(tmp_path, first, _found(("lost", "a message")))
    assert [change.after for change in other.changed] == ["lost"]


def _told(found: Difference) -> list[str]:
    return [line for line in lines(found) if line.startswith(("findings:", "note:"))]


def test_findings_that_came_and_that_are_fixed_are_told_by_impact(tmp_path: Path) -> None:
    same = found("Q1/d", "deaf-start")
    before = [case("Q6/a"), case("Q6/b"), found("W6/c", "late-replies"), same]
    now = [found("Q6/a", "deaf-reader"), found("Q6/b", "deaf-writer"), case("W6/c"), same]
    differs = _diff(tmp_path, before, now)
    came, fixed = "+1 bites: deaf-reader, +1 placed: deaf-writer", "1 fixed: late-replies"
    assert _told(differs) == [f"findings: {came}, \N{MINUS SIGN}{fixed}"]
    assert differs.status() == 1


def test_a_finding_whose_cases_were_not_asked_is_neither_new_nor_fixed(tmp_path: Path) -> None:
    first, second = found("Q6/a", "deaf-reader"), found("W6/c", "late-replies")
    assert _told(_diff(tmp_path, first, second)) == []
    doubt = _unsure("Q6/a")
    assert _told(_diff(tmp_path / "x", first, doubt)) == []


def test_a_new_finding_of_a_case_that_was_red_for_another_one_shows(tmp_path: Path) -> None:
    before, now = found("Q6/a", "deaf-reader"), found("Q6/a", "deaf-reader", "deaf-start")
    assert _told(_diff(tmp_path, before, now)) == ["findings: +1 bites: deaf-start"]
    gone = _diff(tmp_path / "x", now, case("Q6/a"))
    assert _told(gone) == ["findings: \N{MINUS SIGN}2 fixed: deaf-reader, deaf-start"]


def test_what_nobody_attributed_is_noted_and_makes_no_finding_new(tmp_path: Path) -> None:
    before, now = found("Q6/a", None), found("Q6/a", "deaf-reader")
    assert _told(_diff(tmp_path, before, now)) == [
        "note: in the first run 1 violation not attributed to a finding"
    ]
