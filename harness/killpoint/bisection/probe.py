"""Question to each candidate: a case, judged as ``check`` does, or a file played again.

For a finding, it is the case that shows the finding best.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from killpoint.bisection.search import Word
from killpoint.cases import select
from killpoint.errors import BadUsage
from killpoint.findings.registry import findings
from killpoint.invariants import BY_ID
from killpoint.judgement.judge import judge
from killpoint.judgement.replay import replay
from killpoint.scenario import load
from killpoint.verdict import CaseOutcome


class Reply(msgspec.Struct, frozen=True):
    """Result of asking a target."""

    word: Word
    kind: str = ""
    """Kind of the violation."""
    cause: str = ""
    """Cause of the violation, or why the target could not be judged."""


class Question(msgspec.Struct, frozen=True):
    """Question by its name, and the function that asks a target, given as after ``--target``."""

    name: str
    ask: Callable[[str], Reply]


def question(text: str) -> Question:
    """The question behind a case's id, a finding's, or the path of a scenario file.

    Raises:
        BadUsage: it is none of them.
    """
    file = Path(text)
    if text in findings() and not file.exists():
        exhibit = findings()[text].exhibit
        return Question(f"{exhibit} ({text})", lambda target: _judged(exhibit, target))
    if text.split("/")[0] in BY_ID and not file.exists():
        cases = select([text])
        if cases[0].id != text:
            known = ", ".join(case.id for case in cases)
            raise BadUsage(f"{text} is an invariant; expected one of its cases: {known}")
        return Question(text, lambda target: _judged(text, target))
    scenario = load(file)
    return Question(scenario.case, lambda target: _replayed(file, target))


def _judged(case: str, target: str) -> Reply:
    judgement = judge(target, [case], jobs=1)
    outcomes = [each for verdict in judgement.verdicts for each in verdict.cases]
    return _reply([each for each in outcomes if each.id == case])


def _replayed(file: Path, target: str) -> Reply:
    return _reply(replay(file, target).outcomes)


def _reply(outcomes: list[CaseOutcome]) -> Reply:
    """Violated if any of them is, held if all do; else nothing is known."""
    for outcome in outcomes:
        if outcome.outcome == "violated":
            return Reply("violated", outcome.kind or "", outcome.cause)
    for outcome in outcomes:
        if outcome.outcome != "held":
            return Reply("skipped", cause=f"{outcome.outcome}: {outcome.cause}")
    return Reply("held") if outcomes else Reply("skipped", cause="nothing was judged")
