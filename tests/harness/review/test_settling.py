"""New and gone are told where both sides prove them, and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from killpoint.report.stored import StoredCase
from killpoint.review import settling
from killpoint.review.change import ChangedFile
from killpoint.review.comment import ending, markdown
from killpoint.review.outcome import Review
from killpoint.review.settling import Side, settle
from killpoint.verdict import CaseViolation, CaseWord, Kind, Rate

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
    ) -> Review:
        def attribute(_spec: str, shown: list[settling._Shown], *_: object) -> None:
            for _case, violation in shown:
                violation.finding = (findings or {}).get(violation.cause, "new")

        monkeypatch.setattr(settling, "_shows", lambda spec, *_: spec in shows)
        monkeypatch.setattr(settling, "_attribute", attribute)
        found = Review("vllm@.", "main (1 one)", changes=[ChangedFile("queue.py", [])])
        sides = [each if isinstance(each, list) else [each] for each in (now, was)]
        cases = [{case.id: case for case in side if case} for side in sides]
        for side in cases:
            for case in side.values():
                for violation in case.violations:
                    violation.replay = str(file)
        head, base = (Side(spec, side) for spec, side in zip(_SPECS, cases, strict=True))
        settle(found, head, base, jobs=1, end=time.monotonic() + 60)
        return found

    return settled


def _case(
    outcome: CaseWord,
    *causes: str,
    kind: Kind = "hang",
    rates: list[Rate] | None = None,
    id: str = "Q1/x",
):
    violations = [CaseViolation(kind, cause) for cause in causes]
    told = {"kind": kind, "cause": causes[0]} if causes else {}
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
