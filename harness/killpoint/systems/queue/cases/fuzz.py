"""Boundary fuzz with Hypothesis: any run of messages, any shape (Q1), any story of a queue (Q2)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.search.case_run import CaseRun
from killpoint.systems.queue.boundary_fuzz import fuzz_messages
from killpoint.systems.queue.stateful_fuzz import fuzz_stories


def _messages(case_run: CaseRun) -> None:
    fuzz_messages(case_run, "Q1/fuzz", examples=200 if case_run.full else 25)


def _stories(case_run: CaseRun) -> None:
    fuzz_stories(case_run, "Q2/story", examples=100 if case_run.full else 10)


CASES: tuple[Case, ...] = (
    Case("Q1/fuzz", "Hypothesis: kinds, sizes and slots around the boundary", _messages),
    Case(
        "Q2/story",
        "Hypothesis state machine: sends, receives and timeouts of several readers, in any order",
        _stories,
        frozenset({"queue", "deadlines", "ring"}),
    ),
)
