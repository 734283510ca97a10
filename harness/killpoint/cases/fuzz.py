"""Boundary fuzz with Hypothesis: any run of messages, any shape (Q1), any story of a queue (Q2)."""

from __future__ import annotations

from killpoint.cases.case import Case
from killpoint.explore.boundary import fuzz_messages
from killpoint.explore.story import fuzz_stories
from killpoint.explore.trial import Trial


def _messages(trial: Trial) -> None:
    fuzz_messages(trial, "Q1/fuzz", examples=200 if trial.full else 25)


def _stories(trial: Trial) -> None:
    fuzz_stories(trial, "Q2/story", examples=100 if trial.full else 10)


CASES: tuple[Case, ...] = (
    Case("Q1/fuzz", "Hypothesis: kinds, sizes and slots around the boundary", _messages),
    Case(
        "Q2/story",
        "Hypothesis state machine: sends, receives and timeouts of several readers, in any order",
        _stories,
        frozenset({"queue", "deadlines", "ring"}),
    ),
)
