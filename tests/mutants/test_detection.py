"""Which method finds what: random killing finds what shows in any traffic, and nothing more."""

from __future__ import annotations

from pathlib import Path

import pytest
from detection import command
from detection.found import Found, Row
from detection.methods import by_cases, by_random_killing, by_sweep, sweeps_of
from detection.random_killing import traffic
from detection.table import load, merged, render, save

from killpoint.cases import CASES
from killpoint.scenario import Fault


@pytest.mark.parametrize(
    ("victim", "judge"),
    [
        ("writer", "Q6"),
        ("reader-0", "Q7"),
        ("rank-1", "G4"),
        ("worker-0", "W3"),
        ("executor", "W4"),
    ],
)
def test_the_victim_dies_in_the_middle_of_traffic(victim: str, judge: str) -> None:
    played = traffic(victim, 0.25)
    assert played.judges == [judge]
    (fault,) = [step for step in played.steps if isinstance(step, Fault)]
    assert (fault.fault, fault.role, fault.at) == ("kill", victim, None)


def test_random_killing_finds_what_shows_in_any_traffic() -> None:
    found = by_random_killing("mutated:canary", seconds=20.0, seed=0)
    assert found.kind == "lost"
    assert found.plays >= 1


def test_random_killing_finds_nothing_in_the_reference_nor_what_no_death_shows() -> None:
    for target in ("refengine", "mutated:s2_segment_is_made_for_all"):
        found = by_random_killing(target, seconds=2.0, seed=1)
        assert (found.kind, found.doubt) == ("", "")
        assert found.plays >= 1


def test_a_case_finds_its_mutant_and_says_what_it_took() -> None:
    found = by_cases("mutated:s2_segment_is_made_for_all", ["S2/umask-000"], seed=0)
    assert (found.kind, found.by, found.plays) == ("exposure", "S2/umask-000", 1)


def test_a_sweep_is_convicted_by_what_its_plays_leave() -> None:
    cases = ["Q6/published-before-death"]
    found = by_sweep("mutated:l1_sockets_outlive_the_writer", cases, seed=0)
    assert (found.kind, found.by) == ("leak", "L1/in/Q6/published-before-death")
    assert by_sweep("refengine", cases, seed=0).kind == ""


def test_a_limit_leaves_out_the_cases_that_come_after_it() -> None:
    cases = ["Q6/published-before-death", "Q7/reader-dies-idle"]
    assert by_sweep("refengine", cases, seed=0, limit=0.0).plays == 1
    assert by_cases("refengine", cases, seed=0, limit=0.0).plays == 1


def test_what_cannot_be_asked_is_not_tried_rather_than_not_found() -> None:
    assert by_cases("refengine", [], seed=0).doubt
    assert "R5" in by_cases("refengine", ["R5/no-such-case"], seed=0).doubt


def test_the_page_shows_who_found_what_and_adds_it_up() -> None:
    rows = [
        Row("refengine", "", {"random": Found(plays=9, seconds=2)}),
        Row("m1", "R3/x", {"case": Found("lost", "R3/x", 1, seconds=0.2), "random": Found()}),
        Row("m2", "R4/x", {"case": Found(doubt="no right to mount")}),
    ]
    page = render(rows, ["m2", "refengine", "m1", "gone"], "")
    assert page.index("`m2`") < page.index("`refengine`") < page.index("`m1`")
    assert "| `m1` | **lost**, 1 play, 0.2 s | no (0 plays, 0.0 s) |" in page
    assert "not tried: no right to mount" in page
    assert "- its own case: 1 of 1 mutants found" in page
    assert "- random killing: 0 of 1 mutants found" in page
    assert "simulation" not in page.splitlines()[-6:]


def test_what_is_found_anew_replaces_what_was_known_and_no_more(tmp_path: Path) -> None:
    old = [Row("a", "R1/x", {"case": Found("lost"), "random": Found(plays=3)}), Row("b", "R2/x")]
    new = merged(old, [Row("a", "R1/x", {"random": Found("hang")})])
    assert new[0].found == {"case": Found("lost"), "random": Found("hang")}
    save(tmp_path / "d.json", new)
    assert load(tmp_path / "d.json") == new
    assert load(tmp_path / "none.json") == []


def test_the_command_writes_its_page_for_two_mutants(tmp_path: Path) -> None:
    page = tmp_path / "detection.md"
    arguments = ["canary", "s2_segment_is_made_for_all", "--methods", "random", "--seconds", "1"]
    assert command.main(tmp_path, [*arguments, "--page", str(page)]) == 0
    text = page.read_text()
    assert "| `canary` | **lost**" in text
    assert "| `s2_segment_is_made_for_all` | no (" in text


def test_what_a_mutant_is_one_of_says_what_is_swept_and_killed() -> None:
    ids = {case: sweeps_of(case) for case in ("Q6/x", "R9/x", "G4/x", "W3/x")}
    assert ids["Q6/x"] == ids["R9/x"]
    assert all(id[0] in "GR" for id in ids["G4/x"])
    assert all(id[0] == "W" for id in ids["W3/x"])
    known = {case.id for case in CASES}
    assert all(known.issuperset(each) for each in ids.values())


def test_a_mutant_that_there_is_not_is_refused(tmp_path: Path) -> None:
    assert command.main(tmp_path, ["no_such_mutant"]) == 2
