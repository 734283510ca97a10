"""The judge: which cases it plays side by side."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from killpoint.case import Case
from killpoint.durations import Expected
from killpoint.judgement import judge as judging
from killpoint.scenario import Scenario
from killpoint.search.case_run import CaseRun
from killpoint.verdict import CaseOutcome

_SEARCHES = {"R5/every-order", "R5/slot-reuse"}
_PLAYS = {"R1/two-readers", "R4/full-ring"}


class _Met:
    """Cases that are held once another one plays beside them, or nobody came."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._playing: set[str] = set()
        self.company: set[str] = set()
        """Those that had any."""

    def case_run(self, id: str, *_: object, **__: object) -> SimpleNamespace:
        patience = 0.05 if id in _SEARCHES else 10.0

        def judge(*_: object) -> CaseOutcome:
            with self._changed:
                self._playing.add(id)
                if len(self._playing) > 1:
                    self.company |= self._playing
                    self._changed.notify_all()
                self._changed.wait_for(lambda: id in self.company, patience)
                self._playing.discard(id)
            return CaseOutcome(id, id.split("/")[0], "held", runs=1)

        return SimpleNamespace(judge=judge, plays=1, convicted=None, leaks=[])


class _StagePool:
    """Two stages that nobody uses."""

    def __init__(self, _spec: str, count: int) -> None:
        assert count == 2
        self.count = count

    def __enter__(self) -> _StagePool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def loaded(self) -> SimpleNamespace:
        known = {"notes": [], "capabilities": [], "disclaimers": []}
        return SimpleNamespace(name="none", version="1", files={}, **known)

    def take(self) -> None:
        pass

    def give(self, stage: object) -> None:
        pass


def test_a_search_has_the_machine_to_itself_and_plays_of_processes_share_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    met = _Met()
    monkeypatch.setattr(judging, "CaseRun", met.case_run)
    monkeypatch.setattr(judging, "_StagePool", _StagePool)
    monkeypatch.setattr(judging, "_SEARCHES", 1)
    judged = judging.judge("refengine", sorted(_SEARCHES | _PLAYS), jobs=2)
    assert met.company == _PLAYS
    outcomes = [case.id for verdict in judged.verdicts for case in verdict.cases]
    assert set(outcomes) == _SEARCHES | _PLAYS


@pytest.mark.parametrize(("asked", "plays"), [(None, 16), (5, 5)])
def test_four_plays_go_on_at_a_time_for_each_core(
    monkeypatch: pytest.MonkeyPatch, asked: int | None, plays: int
) -> None:
    class Counted(Exception):
        pass

    def bench(_target: object, count: int) -> None:
        raise Counted(count)

    monkeypatch.setattr(judging, "_StagePool", bench)
    monkeypatch.setattr(judging, "resolve", str)
    monkeypatch.setattr(judging.os, "cpu_count", lambda: 4)
    with pytest.raises(Counted, match=f"^{plays}$"):
        judging.judge("any", ["Q9"], jobs=asked)


def test_a_case_that_the_harness_fails_at_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judging, "_StagePool", _StagePool)
    monkeypatch.setattr(judging, "resolve", str)
    broken = judging.plan(["R7"])[0].id

    class Failing(CaseRun):
        def judge(self, run: Any, lacking: Any = ()) -> CaseOutcome:
            if self.outcome.id == broken:
                raise StopIteration
            self.outcome.outcome = "held"
            return self.outcome

    monkeypatch.setattr(judging, "CaseRun", Failing)
    judgement = judging.judge("any", ["R7"], jobs=2)
    (verdict,) = judgement.verdicts
    ended = {case.id: case for case in verdict.cases}
    assert ended[broken].by_harness
    assert "StopIteration" in ended[broken].cause
    assert [case.outcome for case in verdict.cases].count("held") == len(ended) - 1


def test_of_what_is_violated_no_further_case_is_begun_if_the_first_will_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[str] = []

    def case_run(id: str, *_: object, **__: object) -> SimpleNamespace:
        def judge(*_: object) -> CaseOutcome:
            begun.append(id)
            word = "violated" if id.startswith("R7/") else "held"
            return CaseOutcome(id, id.split("/")[0], word, runs=1)

        return SimpleNamespace(judge=judge, plays=1, convicted=None, leaks=[])

    monkeypatch.setattr(judging, "_StagePool", _StagePool)
    monkeypatch.setattr(judging, "resolve", str)
    monkeypatch.setattr(judging, "CaseRun", case_run)
    every = {case.id for case in judging.plan(["R7", "R8"])}
    judgement = judging.judge("any", ["R7", "R8"], jobs=2, first=True)
    r7, r8 = ([id for id in begun if id.startswith(f"{each}/")] for each in ("R7", "R8"))
    assert 1 <= len(r7) <= 2 < len([id for id in every if id.startswith("R7/")])
    assert judgement.left_out == []
    assert f"decided without {len(every) - len(begun)} more cases" in judgement.verdicts[0].strength
    assert {id.split("/")[0] for id in begun[:2]} == {"R7", "R8"}  # in turn
    assert set(r8) == {id for id in every if id.startswith("R8/")}
    assert judgement.verdicts[0].verdict == "violated"


@pytest.mark.parametrize(
    ("budget", "first"),
    [(None, ["Q12/paced-overflow", "R7/many"]), (60.0, ["R7/few", "R7/many"])],
)
def test_the_longest_case_is_begun_first_unless_time_is_short(
    monkeypatch: pytest.MonkeyPatch, budget: float | None, first: list[str]
) -> None:
    begun: list[str] = []

    def case_run(id: str, *_: object, **__: object) -> SimpleNamespace:
        def judge(*_: object) -> CaseOutcome:
            begun.append(id)
            return CaseOutcome(id, id.split("/")[0], "held", runs=1)

        return SimpleNamespace(judge=judge, plays=1, convicted=None, leaks=[])

    def known(cases: Sequence[Case]) -> dict[str, Expected]:
        seconds = {"Q12/paced-overflow": 30.0, "R7/many": 20.0}
        return {case.id: Expected(seconds.get(case.id, 1.0), 0.0) for case in cases}

    def plan(*_: object, **__: object) -> list[Case]:
        names = ("R7/few", "R7/many", "R8/few", "Q12/paced-overflow")
        return [Case(name, "", lambda _trial: None) for name in names]

    monkeypatch.setattr(judging, "_StagePool", _StagePool)
    monkeypatch.setattr(judging, "resolve", str)
    monkeypatch.setattr(judging, "CaseRun", case_run)
    monkeypatch.setattr(judging, "expected", known)
    monkeypatch.setattr(judging, "plan", plan)
    judgement = judging.judge("any", ["R7", "R8", "Q12"], jobs=2, budget=budget)
    assert sorted(begun[:2]) == first
    told = [case.id for verdict in judgement.verdicts for case in verdict.cases]
    assert sorted(told) == sorted(begun)
    assert len(begun) == 4


def test_an_interrupt_ends_the_plays_by_which_it_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    abandoned, seen = threading.Event(), list[bool]()

    def shrink(outcome: CaseOutcome, *_: object, **__: object) -> None:
        if outcome.id == "Q1/a":
            raise KeyboardInterrupt
        seen.append(abandoned.wait(10.0))

    bench: Any = SimpleNamespace(
        count=2,
        loaded=lambda: SimpleNamespace(capabilities=()),
        take=lambda: None,
        give=lambda _: None,
        abandon=abandoned.set,
    )
    run = judging._Run(bench, "x", 0, False, None, None, None, "line", "cpu", False)
    run._convicted = [
        (CaseOutcome(id, "Q1", "violated"), Scenario(id, ["Q1"], [])) for id in ("Q1/a", "Q1/b")
    ]
    monkeypatch.setattr(judging, "shrink", shrink)
    with pytest.raises(KeyboardInterrupt):
        run.shrink(60.0, None)
    assert seen in ([], [True])
    assert abandoned.is_set()
