"""The catalogue of cases: each case is well formed, can be chosen, and its scenarios are files."""

from __future__ import annotations

import pytest
from reading import Reading
from synthetic import Tape

from killpoint.case import Case
from killpoint.cases import CASES, select
from killpoint.checkers import CHECKERS
from killpoint.errors import BadUsage
from killpoint.invariants import BY_ID
from killpoint.scenario import (
    Cancel,
    Fault,
    Receive,
    RingRead,
    RingWrite,
    Scenario,
    Send,
    dump,
    parse,
)
from killpoint.search.case_run import CaseRun

PLAYED = [
    case
    for case in CASES
    if "fuzz" not in case.id and case.tier == "process" and "cuda" not in case.needs
]


class Counting(Reading):
    """Says of each send that it ran three lines."""

    def tape(self, scenario: Scenario) -> Tape:
        tape = Tape()
        for role in scenario.roles():
            tape.tell(role, "lines", op="send", count=3)
        return tape


def _scenarios(case: Case) -> list[Scenario]:
    player = Counting()
    case.run(CaseRun(case.id, player, seed=3, full=False, folder=None))
    return player.played


@pytest.mark.parametrize("case", PLAYED, ids=lambda c: c.id)
def test_a_case_plays_scenarios_that_are_files_judged_by_its_invariant(case: object) -> None:
    found = next(each for each in CASES if each is case)
    assert found.invariant in BY_ID
    assert found.invariant in CHECKERS
    played = _scenarios(found)
    assert played
    for scenario in played:
        assert scenario.judges[0] == found.invariant  # others may look on
        assert parse(dump(scenario), "x") == scenario


@pytest.mark.parametrize("case", PLAYED, ids=lambda c: c.id)
def test_a_case_needs_the_capabilities_that_its_steps_use(case: object) -> None:
    found = next(each for each in CASES if each is case)
    for scenario in _scenarios(found):
        for step in scenario.steps:
            if isinstance(step, Cancel):
                assert "cancel" in found.needs
            if isinstance(step, (RingRead, RingWrite)):
                assert "ring" in found.needs
            if isinstance(step, Fault) and step.at is not None:
                assert "points" in found.needs
                assert step.at.name != "overflow-marker" or "slots" in found.needs
        assert not scenario.shape.remote or "remote" in found.needs
        assert not scenario.networked() or found.needs & {"wire", "group", "pipe"}


@pytest.mark.parametrize("case", [each for each in PLAYED if each.id.startswith("Q5/")])
def test_a_slow_reader_is_asked_for_all_that_is_sent_lest_the_rest_counts_as_lost(
    case: Case,
) -> None:
    for scenario in _scenarios(case):
        slow = scenario.readers()[-1]
        sends = [each for each in scenario.steps if isinstance(each, Send)]
        receives = [each for each in scenario.steps if isinstance(each, Receive)]
        asked = sum(each.count for each in receives if {slow, "readers"} & {*each.roles})
        assert asked >= sum(message.repeat for each in sends for message in each.messages)


def test_names_are_unique_and_say_what_they_do() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


def test_cases_are_chosen_by_invariant_or_by_name_without_repeats() -> None:
    assert select([]) == list(CASES)
    repeated = [case.id for case in select(["Q4/buffer-count", "Q4", "Q4/buffer-length"])]
    assert repeated == ["Q4/buffer-count", "Q4/buffer-length"]
    assert {case.invariant for case in select(["Q6", "Q7"])} == {"Q6", "Q7"}


@pytest.mark.parametrize(("word", "there_is"), [("R3/x", "R3/stream"), ("Z1", "R1, R2")])
def test_what_there_is_not_is_bad_usage(word: str, there_is: str) -> None:
    with pytest.raises(BadUsage, match=there_is):
        select([word])
