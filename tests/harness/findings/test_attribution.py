"""Attribution: a violation belongs to the finding whose switch-off ends it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from killpoint.cases.case import OPEN, scenario
from killpoint.findings import attribution
from killpoint.findings.attribution import Attribution, target_line
from killpoint.findings.command import grouped
from killpoint.scenario import dump
from killpoint.targets.vllm.switch_offs import SWITCH_OFFS
from killpoint.verdict import CaseViolation

Shows = Callable[[Sequence[str]], bool]
Settle = Callable[[CaseViolation, Shows], attribution.Attributed]


@pytest.fixture
def replay(tmp_path: Path) -> str:
    file = tmp_path / "replay.toml"
    file.write_text(dump(scenario("R3/stream", *OPEN)), "utf-8")
    return str(file)


@pytest.fixture
def settle(monkeypatch: pytest.MonkeyPatch) -> Settle:
    """Whose a violation is, where ``shows`` says what a play with these switched off shows."""

    def settled(violation: CaseViolation, shows: Shows) -> attribution.Attributed:
        monkeypatch.setattr(attribution, "resolve", lambda spec: spec)
        monkeypatch.setattr(Attribution, "_shows", lambda self, s, v, off: shows(off))
        with Attribution("vllm==0.33.0") as whose:
            return whose.of("Q1/any", violation)

    return settled


@pytest.mark.parametrize("id", SWITCH_OFFS)
def test_the_one_whose_switch_off_ends_it(id: str, replay: str, settle: Settle) -> None:
    violation = CaseViolation("hang", "reader-0 waited", replay=replay)
    assert settle(violation, lambda off: id not in off).finding == id


def test_what_is_there_with_all_of_them_off_is_new(replay: str, settle: Settle) -> None:
    found = settle(CaseViolation("hang", "reader-0 waited", replay=replay), lambda off: True)
    assert (found.finding, found.how) == (
        "new",
        "it is there with every known finding switched off",
    )


def test_what_does_not_come_again_is_nobodys(replay: str, settle: Settle) -> None:
    found = settle(CaseViolation("hang", "reader-0 waited", replay=replay), lambda off: False)
    assert found.finding == "new"
    assert "did not show it again" in found.how


def test_what_only_two_together_end_is_new(replay: str, settle: Settle) -> None:
    first, *_, last = SWITCH_OFFS
    found = settle(
        CaseViolation("hang", "reader-0 waited", replay=replay),
        lambda off: not {first, last} <= {*off},
    )
    assert found.finding == "new"


def test_without_a_file_nothing_is_played(settle: Settle) -> None:
    assert settle(CaseViolation("hang", "reader-0 waited"), lambda off: False).finding == "new"


def test_the_place_that_a_violation_names_is_tried_first(replay: str, settle: Settle) -> None:
    tried: list[tuple[str, ...]] = []

    def shows(off: Sequence[str]) -> bool:
        tried.append((*off,))
        return "deaf-writer" not in off

    cause = "executor still waited in MessageQueue.acquire_write (shm_broadcast.py:752)"
    settle(CaseViolation("hang", cause, replay=replay), shows)
    assert tried[0] == ()
    assert len(tried) <= 4


def test_words_that_one_mechanism_alone_has_need_no_play(settle: Settle) -> None:
    cause = "reader 0 got message 1 again, in the place of message 3, with stale loads"
    assert settle(CaseViolation("duplicate", cause), lambda off: True).finding == "stale-flag"


def test_the_targets_own_line() -> None:
    cause = "reader-0 still waited in receive after 4.0 s in MessageQueue.recv (a/b.py:1016)"
    place = target_line(CaseViolation("hang", cause))
    assert place is not None
    assert (place.file, place.function, place.line) == ("a/b.py", "MessageQueue.recv", 1016)
    assert target_line(CaseViolation("lost", "message 3 never came")) is None


def test_findings_are_grouped_the_worst_impact_first(replay: str, settle: Settle) -> None:
    violation = CaseViolation("hang", "reader-0 waited", replay=replay)
    told = [
        settle(violation, lambda off: True),
        settle(violation, lambda off: "deaf-writer" not in off),
        settle(violation, lambda off: "late-replies" not in off),
    ]
    rows = grouped([*told, told[2]])
    assert [(row["id"], row["impact"], row["cases"]) for row in rows] == [
        ("late-replies", "bites", ["Q1/any"]),
        ("deaf-writer", "placed", ["Q1/any"]),
        ("new", "new", ["Q1/any"]),
    ]
