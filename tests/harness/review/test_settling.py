"""New and gone are told where both sides prove them, and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path

import pytest

from killpoint.errors import CannotWork
from killpoint.judgement.replay import Replayed
from killpoint.report.run_folder import StoredCase
from killpoint.review import settling
from killpoint.review.change import ChangedFile
from killpoint.review.comment import ending, markdown
from killpoint.review.outcome import Review
from killpoint.review.settling import Side, settle
from killpoint.scenario import dump
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario
from killpoint.verdict import (
    CaseOutcome,
    CaseViolation,
    CaseWord,
    Kind,
    Rate,
    TargetLine,
    Violation,
)

_SPECS = ("head", "base")
Settled = Callable[..., Review]


@pytest.fixture
def settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settled:
    """What two sides come to; ``shows`` says which of them show a replay again."""
    file = tmp_path / "replay.toml"
    file.touch()

    def settled(
        now: StoredCase | list[StoredCase] | None,
        was: StoredCase | list[StoredCase] | None,
        shows: tuple[str, ...] = (),
        findings: dict[str, str] | None = None,
        asks: bool = True,
        seconds: float = 60,
    ) -> Review:
        def attribute(_spec: str, shown: list[settling._Shown], *_: object) -> None:
            for _case, violation in shown:
                assert asks
                assert violation.finding is None
                violation.finding = (findings or {}).get(violation.cause, "new")

        monkeypatch.setattr(settling, "_shows", lambda spec, *_: spec in shows)
        monkeypatch.setattr(settling, "_attribute", attribute)
        found = Review("vllm@.", "main (1 one)", changes=[ChangedFile("queue.py", [])])
        sides = [deepcopy(each if isinstance(each, list) else [each]) for each in (now, was)]
        cases = [{case.id: case for case in side if case} for side in sides]
        for side in cases:
            for case in side.values():
                for violation in case.violations:
                    violation.replay = str(file)
        head, base = (Side(spec, side) for spec, side in zip(_SPECS, cases, strict=True))
        settle(found, head, base, jobs=1, end=time.monotonic() + seconds, asks=asks)
        return found

    return settled


def _case(
    outcome: CaseWord,
    *shown: str | CaseViolation,
    kind: Kind = "hang",
    rates: list[Rate] | None = None,
    id: str = "Q1/x",
):
    violations = [CaseViolation(kind, each) if isinstance(each, str) else each for each in shown]
    told = {"kind": violations[0].kind, "cause": violations[0].cause} if shown else {}
    return StoredCase(id, outcome, violations=violations, rates=rates or [], **told)


def test_new_is_what_held_and_shows_again_on_the_tree_alone(settled: Settled):
    found = settled(_case("violated", "stuck"), _case("held"), ("head",), {"stuck": "deaf-reader"})
    assert ([each.id for each in found.new], found.status()) == (["deaf-reader"], 1)
    assert ending(found) == "+1 bites: deaf-reader"
    comment = markdown(found)
    assert "**bites: deaf-reader**" in comment
    assert "broadcast.py in MessageQueue.recv: stuck" in comment


def test_what_its_base_shows_too_is_not_new(settled: Settled):
    found = settled(_case("violated", "stuck"), _case("held"), ("head", "base"))
    assert (found.new, found.as_before, found.status()) == ([], 1, 0)


def test_what_does_not_come_again_is_not_told(settled: Settled):
    found = settled(_case("violated", "stuck"), _case("held"))
    assert (found.new, found.status()) == ([], 3)
    assert "3 plays did not show it again" in found.unsure[0]


def test_gone_is_what_the_base_alone_shows_again(settled: Settled):
    found = settled(_case("held"), _case("violated", "stuck"), ("base",))
    assert ([each.cases for each in found.gone], found.status()) == ([["Q1/x"]], 0)
    assert ending(found) == "\N{MINUS SIGN}1 fixed: hang in Q1/x"
    assert settled(_case("held"), _case("violated", "stuck"), ("head", "base")).gone == []
    assert settled(_case("held"), _case("violated", "stuck")).gone == []


@pytest.mark.parametrize(
    ("now", "was", "told"),
    [
        (_case("violated", "stuck"), None, "the base was not asked"),
        (_case("violated", "stuck"), _case("inconclusive"), "inconclusive on the base"),
        (_case("inconclusive"), _case("held"), "held on the base; inconclusive now"),
        (_case("unsupported"), _case("held"), "held on the base; unsupported now"),
    ],
)
def test_what_one_side_does_not_decide_is_told_as_that(
    now: StoredCase, was: StoredCase | None, told: str, settled: Settled
):
    found = settled(now, was, ("head",))
    assert (found.new, found.gone, found.status()) == ([], [], 3)
    assert told in found.unsure[0]


def test_a_case_that_its_base_cannot_be_asked_is_new(settled: Settled):
    found = settled(_case("violated", "stuck"), _case("unsupported"), ("head",))
    assert len(found.new) == 1


def test_one_kind_in_other_words_is_neither_new_nor_gone(settled: Settled):
    found = settled(_case("violated", "stuck in a"), _case("violated", "stuck in b"), ("head",))
    assert (found.new, found.gone, found.status()) == ([], [], 0)
    assert found.otherwise == ["Q1/x: hang: stuck in a"]


def test_two_findings_in_one_case_are_two(settled: Settled):
    whose = {"stuck in a": "deaf-reader", "stuck in b": "deaf-writer"}
    sides = _case("violated", "stuck in a"), _case("violated", "stuck in b")
    assert [each.id for each in settled(*sides, ("head",), whose).new] == ["deaf-reader"]
    assert [each.id for each in settled(*sides, ("base",), whose).gone] == ["deaf-writer"]


def test_what_no_switch_off_ends_is_not_folded_away_where_one_ends_its_twin(settled: Settled):
    sides = _case("violated", "stuck in a"), _case("violated", "stuck in b")
    found = settled(*sides, ("head",), {"stuck in b": "deaf-writer"})
    assert (found.new, found.otherwise, found.status()) == ([], [], 3)
    assert "Q1/x: hang: stuck in a; the base's" in found.unsure[0]
    assert "deaf-writer switched off" in found.unsure[0]
    found = settled(*sides, ("head",), {"stuck in b": "silent-cut"})
    assert (len(found.otherwise), found.status()) == (1, 0)


def test_beside_the_same_on_both_sides_other_words_of_its_kind_are_not_new(settled: Settled):
    sides = _case("violated", "stuck in a", "stuck in b"), _case("violated", "stuck in a")
    found = settled(*sides, ("head",))
    assert (found.new, found.as_before) == ([], 1)
    assert found.otherwise == ["Q1/x: hang: stuck in b"]
    before = _case("violated", "stuck in a", "stuck in c")
    found = settled(sides[0], before, ("head",), {"stuck in c": "deaf-writer"})
    assert (len(found.otherwise), found.unsure, found.status()) == (1, [], 0)


@pytest.mark.parametrize("beside", [[], ["stuck in a"]])
def test_another_kind_is_another_violation(beside: list[str], settled: Settled):
    hang, leak = CaseViolation("hang", "stuck in b"), CaseViolation("leak", "a file is left")
    for one, other in ((hang, leak), (leak, hang)):
        now, was = (_case("violated", *beside, each, kind="late") for each in (one, other))
        found = settled(now, was, ("head",))
        assert [each.cause for each in found.new] == [one.cause]
        found = settled(now, was, ("base",))
        assert [each.cause for each in found.gone] == [other.cause]


def test_of_another_case_one_kind_is_another_violation(settled: Settled):
    sides = [_case("violated", "stuck in a"), _case("violated", "stuck in b", id="Q2/x")]
    found = settled(sides, [sides[0], _case("held", id="Q2/x")], ("head",))
    assert [each.cases for each in found.new] == [["Q2/x"]]


@pytest.mark.parametrize(("both", "elsewhere"), [("deaf-reader", True), ("deaf-writer", False)])
def test_of_what_is_new_it_is_told_whether_other_cases_show_it_on_both_sides(
    both: str, elsewhere: bool, settled: Settled
):
    tree = [_case("violated", "stuck in a"), _case("violated", "stuck in b", id="Q2/x")]
    tree[0].violations.append(CaseViolation("hang", "the same in other words"))
    other = [_case("violated", "stuck in a"), _case("held", id="Q2/x")]
    whose = {"stuck in a": both, "stuck in b": "deaf-reader"}
    found = settled(tree, other, ("head",), whose)
    assert [(each.id, each.elsewhere) for each in found.new] == [("deaf-reader", elsewhere)]
    found = settled(other, tree, ("base",), whose)
    assert [(each.id, each.elsewhere) for each in found.gone] == [("deaf-reader", elsewhere)]


def test_unasked_whose_it_is_each_is_new_by_its_kind_and_place(settled: Settled):
    def shown(cause: str, function: str, id: str) -> StoredCase:
        place = TargetLine("queue.py", function)
        return _case("violated", CaseViolation("hang", cause, place=place), id=id)

    now = [shown("a", "put", "Q1/a"), shown("b", "get", "Q1/b"), shown("c", "put", "Q1/c")]
    found = settled(now, [_case("held", id=each.id) for each in now], ("head",), asks=False)
    assert [(each.id, each.cases) for each in found.new] == [
        ("new", ["Q1/a", "Q1/c"]),
        ("new", ["Q1/b"]),
    ]


def test_what_there_was_no_time_to_play_again_is_told_as_that(settled: Settled):
    found = settled(_case("violated", "stuck"), _case("held"), ("base",), seconds=0)
    assert [each.again for each in found.new] == [False]
    found = settled(_case("held"), _case("violated", "stuck"), ("head",), seconds=0)
    assert [each.again for each in found.gone] == [False]


def test_what_cannot_be_played_again_is_told_as_that(settled: Settled):
    def shows(*_: object) -> bool:
        raise CannotWork("there is no memory")

    class Unable(tuple[str, ...]):
        __contains__ = shows

    found = settled(_case("violated", "stuck"), _case("held"), Unable())
    assert (found.new, found.status()) == ([], 3)
    assert found.unsure == ["Q1/x: hang; not played again: there is no memory"]


def test_what_both_sides_show_is_as_before_and_what_both_decide_is_compared(settled: Settled):
    now = [_case("violated", "stuck"), _case("held", id="Q2/x"), _case("held", id="Q3/x")]
    was = [now[0], _case("inconclusive", id="Q2/x"), _case("held", id="Q3/x")]
    found = settled(now, was)
    assert (found.as_before, found.compared, found.status()) == (1, 2, 0)


def test_those_that_bite_are_told_first(settled: Settled):
    names = ["told-after-grace", "deaf-writer", "deaf-reader"]
    now = [_case("violated", name, id=f"Q{n}/x") for n, name in enumerate(names)]
    was = [_case("held", id=case.id) for case in now]
    whose = {name: name for name in names}
    assert [each.id for each in settled(now, was, ("head",), whose).new] == [
        "deaf-reader",
        "told-after-grace",
        "deaf-writer",
    ]
    assert [each.impact for each in settled(was, now, ("base",), whose).gone] == [
        "bites",
        "minor",
        "placed",
    ]


@pytest.mark.parametrize(
    ("plays", "shows"),
    [([["hang"]], True), ([[], ["leak"], ["leak", "hang"]], True), ([["leak"]] * 3, False)],
)
def test_three_plays_may_show_it_by_its_kind(
    plays: list[list[Kind]], shows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    left = iter(plays)

    def play_once(*_: object) -> Replayed:
        outcome = CaseOutcome("R3/stream", "R3", "held")
        for kind in next(left):
            outcome.add(Violation(kind, "as before"))
        return Replayed("held", [outcome])

    monkeypatch.setattr(settling, "resolve", str)
    monkeypatch.setattr(settling, "Stage", nullcontext)
    monkeypatch.setattr(settling, "play_once", play_once)
    file = tmp_path / "replay.toml"
    file.write_text(dump(queue_scenario("R3/stream", *OPEN_QUEUE)), "utf-8")
    assert settling._shows("vllm@.", file, CaseViolation("hang", "stuck")) is shows
    assert not [*left]


def test_what_a_race_decides_is_neither(settled: Settled):
    rates = [[Rate("hung", "kills", hits, 60)] for hits in (1, 0)]
    found = settled(
        _case("violated", "stuck", rates=rates[0]), _case("held", rates=rates[1]), ("head",)
    )
    assert (found.new, found.chance, found.status()) == ([], ["Q1/x"], 0)


def test_of_several_cases_the_exhibit_is_played_again(settled: Settled):
    exhibit = "Q6/writer-dies-after-overflow-marker"
    now = [_case("violated", "stuck in a"), _case("violated", "stuck in b", id=exhibit)]
    whose = {"stuck in a": "deaf-reader", "stuck in b": "deaf-reader"}
    found = settled(now, [_case("held"), _case("held", id=exhibit)], ("head",), whose)
    assert [(each.cases, each.cause) for each in found.new] == [([exhibit, "Q1/x"], "stuck in b")]


def test_a_finding_that_moves_to_another_case_is_as_before(settled: Settled):
    now = [_case("violated", "stuck in a"), _case("held", id="Q2/x")]
    was = [_case("held"), _case("violated", "stuck in b", id="Q2/x")]
    whose = {"stuck in a": "deaf-reader", "stuck in b": "deaf-reader"}
    found = settled(now, was, ("head",), whose)
    assert (found.new, found.gone, found.as_before) == ([], [], 1)
