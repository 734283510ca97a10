"""Plays of an attribution: of which target, what each of them says, and whose stages they take."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from killpoint.errors import CannotWork
from killpoint.findings import attribution
from killpoint.findings.attribution import Attribution
from killpoint.findings.registry import finding
from killpoint.judgement.replay import Ending, Replayed
from killpoint.scenario import dump
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario
from killpoint.targets.vllm.switch_offs import SWITCH_OFFS
from killpoint.verdict import CaseOutcome, CaseViolation, Kind, Violation

_SPEC = "vllm==0.33.0"
_SCENARIO = queue_scenario("R3/stream", *OPEN_QUEUE)
_HANG = CaseViolation("hang", "reader-0 waited")


class Stages:
    """Stages that are up, by the target that each has; and the plays that were made on them."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.closed: list[str] = []
        self.abandoned = threading.Event()
        self.plays: list[tuple[str, str, bool]] = []
        """Of which stage, as which target, and whether it confirms what rests on time."""
        self.kinds: list[Kind] = []
        """Of the violations that a play shows."""
        self.of = ""
        """Of what they are."""
        self.ending: Ending = "held"
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens during a play."""

    def stage(self, spec: str) -> Stage:
        self.made.append(spec)
        return Stage(spec, self)

    def play_once(self, stage: Stage, _: object, spec: str, *, confirms: bool) -> Replayed:
        self.plays.append((stage.spec, spec, confirms))
        self.meanwhile()
        shown = [CaseOutcome("R3/stream", "R3", "violated") for _ in self.kinds]
        for outcome, kind in zip(shown, self.kinds, strict=True):
            outcome.add(Violation(kind, "as before", of=self.of))
        return Replayed(self.ending, shown)


class Stage:
    def __init__(self, spec: str, stages: Stages) -> None:
        self.spec, self._stages = spec, stages

    def close(self) -> None:
        self._stages.closed.append(self.spec)

    def abandon(self) -> None:
        self._stages.abandoned.set()


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Stages:
    made = Stages()
    monkeypatch.setattr(attribution, "resolve", str)
    monkeypatch.setattr(attribution, "switch_offs_of", lambda _: [*SWITCH_OFFS])  # reads no release
    monkeypatch.setattr(attribution, "Stage", made.stage)
    monkeypatch.setattr(attribution, "play_once", made.play_once)
    return made


@pytest.mark.parametrize(
    ("kinds", "ending", "says"),
    [
        (["hang"], "held", "shows"),
        (["leak", "hang"], "held", "shows"),
        (["leak"], "held", "held"),
        ([], "held", "held"),
        ([], "not-reached", "nothing"),
    ],
)
def test_a_play_shows_a_violation_by_one_of_its_kind(
    kinds: list[Kind], ending: Ending, says: str, stages: Stages
) -> None:
    stages.kinds, stages.ending = kinds, ending
    with Attribution(_SPEC) as whose:
        assert whose._plays(_SCENARIO, _HANG, ()) == says


@pytest.mark.parametrize(("of", "says"), [("processes", "shows"), ("names", "held"), ("", "shows")])
def test_a_leak_of_another_sort_of_thing_is_another_violation(
    of: str, says: str, stages: Stages
) -> None:
    stages.kinds, stages.of = ["leak"], of
    orphans = CaseViolation("leak", "core still lived", of="processes")
    unsaid = CaseViolation("leak", "of a run that was stored before sorts were told")
    with Attribution(_SPEC) as whose:
        assert whose._plays(_SCENARIO, orphans, ()) == says
        assert whose._plays(_SCENARIO, unsaid, ()) == "shows"


def test_a_play_is_of_the_target_with_these_switched_off_and_confirms_what_it_shows_then(
    stages: Stages,
) -> None:
    with Attribution(_SPEC) as whose:
        whose._plays(_SCENARIO, _HANG, ())
        whose._plays(_SCENARIO, _HANG, ("late-replies", "deaf-reader"))
        whose._plays(_SCENARIO, _HANG, ("late-replies", "deaf-reader"), confirms=False)
    without = f"{_SPEC}~deaf-reader,late-replies"
    assert stages.plays == [
        (_SPEC, _SPEC, False),
        (without, without, True),
        (without, without, False),
    ]


def test_a_stage_waits_for_the_next_play_of_its_target_and_is_closed_at_the_end(
    stages: Stages,
) -> None:
    with Attribution(_SPEC) as whose:
        for off in ((), ("deaf-reader",), (), ("deaf-reader",)):
            whose._plays(_SCENARIO, _HANG, off)
        assert stages.closed == []
    assert [spec for spec, *_ in stages.plays[:2]] == stages.made == stages.closed


def test_of_the_stages_that_wait_the_oldest_are_closed(stages: Stages) -> None:
    with Attribution(_SPEC) as whose:
        whose.of_cases([], jobs=1)  # two for each that is settled at a time
        for off in ((), ("deaf-reader",), (), ("late-replies",)):
            whose._plays(_SCENARIO, _HANG, off)
        assert stages.closed == [f"{_SPEC}~deaf-reader"]


def test_a_stage_is_of_one_play_at_a_time(stages: Stages) -> None:
    both = threading.Barrier(2)
    stages.meanwhile = lambda: both.wait(60)
    with Attribution(_SPEC) as whose:
        beside = threading.Thread(target=whose._plays, args=(_SCENARIO, _HANG, ()))
        beside.start()
        whose._plays(_SCENARIO, _HANG, ())
        beside.join(60)
    assert stages.made == stages.closed == [_SPEC, _SPEC]


def _cases(*ids: str) -> list[CaseOutcome]:
    cases = [CaseOutcome(id, "Q1", "violated") for id in ids]
    for case in cases:
        case.violations.append(CaseViolation("hang", case.id))
    return cases


def _settles(monkeypatch: pytest.MonkeyPatch, settle: Callable[[str], Any]) -> None:
    def settled(_: Attribution, case: str, __: CaseViolation) -> tuple[str, str]:
        settle(case)
        return "deaf-reader", "its switch-off ends it"

    monkeypatch.setattr(Attribution, "_settled", settled)


@pytest.mark.usefixtures("stages")
def test_one_that_cannot_be_played_is_told_and_the_others_are_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    errors = {"Q1/a": CannotWork("no stage"), "Q1/b": OSError("no space")}

    def settle(case: str) -> None:
        if case in errors:
            raise errors[case]

    _settles(monkeypatch, settle)
    told: list[str] = []
    cases = _cases("Q1/a", "Q1/b", "Q1/c")
    with Attribution(_SPEC, told.append) as whose:
        whose.of_cases(cases)
    found = [(case.violations[0].finding, case.violations[0].how) for case in cases]
    assert found == [
        (None, "not attributed: no stage"),
        (None, "not attributed: no space"),
        ("deaf-reader", "its switch-off ends it"),
    ]
    assert told[0] == "Q1/a: hang: not attributed: no stage"


@pytest.mark.usefixtures("stages")
def test_as_many_are_settled_at_a_time_as_there_are_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(3)
    _settles(monkeypatch, lambda _: together.wait(60))
    cases = _cases("Q1/a", "Q1/b", "Q1/c")
    with Attribution(_SPEC) as whose:
        whose.of_cases(cases, jobs=3)
    assert {case.violations[0].finding for case in cases} == {"deaf-reader"}


@pytest.mark.usefixtures("stages")
def test_those_that_are_likely_the_same_bugs_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    settled: list[str] = []
    _settles(monkeypatch, settled.append)
    first, second = finding("late-replies"), finding("deaf-reader")
    cases = _cases("Q1/a", first.exhibit, second.exhibit, first.exhibit)
    with Attribution(_SPEC) as whose:
        whose.of_cases(cases)
    count = settled.index(first.exhibit)
    assert settled[count : count + 2] == [first.exhibit] * 2
    assert sorted(settled) == sorted(case.id for case in cases)


@pytest.mark.usefixtures("stages")
def test_after_an_interrupt_no_other_one_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def settle(case: str) -> None:
        begun.append(case)
        if case == "Q1/a":
            raise KeyboardInterrupt
        over.wait(60)

    over = threading.Event()
    _settles(monkeypatch, settle)
    shutdown = attribution.ThreadPoolExecutor.shutdown

    def ended(pool: Any, wait: bool = True, cancel_futures: bool = False) -> None:
        shutdown(pool, False, cancel_futures=cancel_futures)
        over.set()  # the one that was under way ends only now
        shutdown(pool, wait)

    monkeypatch.setattr(attribution.ThreadPoolExecutor, "shutdown", ended)
    with Attribution(_SPEC) as whose, pytest.raises(KeyboardInterrupt):
        whose.of_cases(_cases("Q1/a", "Q1/b", "Q1/c", "Q1/d"))
    assert begun in (["Q1/a"], ["Q1/a", "Q1/b"])


def test_after_an_interrupt_a_play_that_is_under_way_is_ended_and_no_other_one_made(
    stages: Stages, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settled, playing = Attribution._settled, threading.Event()

    def interrupted(whose: Attribution, case: str, violation: CaseViolation) -> tuple[str, str]:
        if case == "Q1/b":
            return settled(whose, case, violation)
        playing.wait(60)
        raise KeyboardInterrupt

    def meanwhile() -> None:
        playing.set()
        assert stages.abandoned.wait(60)

    monkeypatch.setattr(Attribution, "_settled", interrupted)
    stages.kinds, stages.meanwhile = ["hang"], meanwhile
    cases = _cases("Q1/a", "Q1/b")
    cases[1].violations[0].replay = str(tmp_path / "replay.toml")
    (tmp_path / "replay.toml").write_text(dump(_SCENARIO), "utf-8")
    with Attribution(_SPEC) as whose, pytest.raises(KeyboardInterrupt):
        whose.of_cases(cases, jobs=2)
    assert len(stages.plays) == 1
    assert cases[1].violations[0].finding is None
