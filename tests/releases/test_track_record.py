"""Published releases told apart by named cases: what the README's track record claims."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from killpoint.cases import select
from killpoint.errors import CannotWork
from killpoint.explore.trial import Trial
from killpoint.replay import replay
from killpoint.stage.stage import Stage
from killpoint.targets.registry import resolve
from killpoint.verdict import CaseOutcome

QUEUES_CHANGED = ("0.11.0", "0.16.0", "0.18.0", "0.26.0", "0.27.0", "0.33.0")
"""Where what Q8 and Q13 rest on changed, and the newest."""

_LATE = {"0.11.0": "", "0.16.0": "", "0.18.0": "60 s", "0.26.0": "60 s"}
"""How much later a reader woke whose subscription came late; else 5 s."""


def _explored(case: str, *expected: object) -> list[object]:
    """A row for each of these releases; those before the newest only with ``--full``."""
    rows: list[object] = []
    for release in QUEUES_CHANGED:
        came: tuple[object, ...] = expected
        if case == "Q8/late-subscription":
            late = _LATE.get(release, "5 s")
            came = ("violated", "late", f"it woke {late} later") if late else ("held", None, "")
        marks = () if release == QUEUES_CHANGED[-1] else pytest.mark.full
        rows.append(pytest.param(case, release, *came, marks=marks))
    return rows


_POOLS = [
    ("W2/late-reply-after-timeout", "0.33.0", "violated", "wrong-data", "given the reply to call"),
    ("W3/killed-during-call-without-deadline", "0.10.1", "violated", "hang", "waited in call"),
    ("W3/killed-during-call-without-deadline", "0.10.2", "held", None, ""),
    ("W4/parent-killed-fork", "0.17.1", "violated", "leak", "still there 5 s after"),
    ("W4/parent-killed-fork", "0.18.0", "held", None, ""),
    *(
        pytest.param(case, release, "violated", kind, words, marks=pytest.mark.full)
        for case, release, kind, words in (
            ("W2/late-reply-after-timeout", "0.8.5", "wrong-data", "given the reply to call"),
            ("W2/after-a-failed-call", "0.33.0", "wrong-data", "given the reply to call"),
            ("W2/after-an-interrupted-call", "0.33.0", "wrong-data", "given the reply to call"),
            ("W3/told-before-the-grace-is-over", "0.33.0", "late", "told of the death"),
            ("W4/parent-killed-while-loading-fork", "0.33.0", "leak", "still there 5 s after"),
            ("W5/queue-full", "0.33.0", "hang", "waited in call"),
        )
    ),
]
"""Of worker pools: what came with one release and went with another, and what the newest has."""

RECORD = [
    *_explored("Q8/every-schedule", "held", None, ""),
    *_explored("Q8/late-subscription"),
    *_explored("Q13/two-senders-every-schedule", "violated", "lost", "never came"),
    *_explored("Q13/two-receivers-every-schedule", "violated", "duplicate", "came twice"),
    ("R7/undecodable-message", "0.26.0", "violated", "duplicate", "never marked read"),
    ("R7/undecodable-message", "0.27.0", "held", None, ""),
    ("R6/held-array-after-lap", "0.31.0", "violated", "wrong-data", "points into a slot"),
    ("R6/held-array-after-lap", "0.32.0", "held", None, ""),
    ("Q6/writer-dies-after-overflow-marker", "0.33.0", "violated", "hang", "dead by signal 9"),
    ("Q16/closed-after-60MB", "0.32.0", "violated", "lost", "payloads unsent"),
    ("Q16/closed-after-60MB", "0.31.0", "held", None, ""),
    (
        "Q3/overwritten-after-enqueue-overflow",
        "0.33.0",
        "violated",
        "wrong-data",
        "caller's memory",
    ),
    ("Q3/overwritten-after-enqueue-remote", "0.33.0", "violated", "wrong-data", "caller's memory"),
    ("Q3/overwritten-after-enqueue-remote", "0.11.0", "held", None, ""),
    ("Q5/slow-remote-reader", "0.33.0", "violated", "lost", "dropped in silence"),
    ("Q18/cut-past-silence-is-told", "0.33.0", "violated", "hang", "never noticed"),
    ("Q9/receive-marker-late", "0.33.0", "violated", "late", "timeout 3 s took"),
    ("Q10/departure-is-no-arrival", "0.33.0", "violated", "no-error", "departure of reader-0"),
    ("R8/fork-copy-of-writer", "0.33.0", "violated", "bad-transition", "fork's copy"),
    ("G1/all-to-all", "0.33.0", "violated", "wrong-data", "which rank-2 sent to rank-1"),
    ("G2/large-objects", "0.33.0", "violated", "growth", "rank-0 gains"),
    ("G3/absent-host", "0.33.0", "violated", "hang", "broadcast_obj"),
    ("G4/host-leaves-after-broadcast", "0.33.0", "violated", "lost", "although object"),
    ("G4/cut-3s-loses-nothing", "0.33.0", "held", None, ""),
    ("G4/cut-past-silence-is-told", "0.33.0", "violated", "hang", "never noticed"),
    pytest.param(
        "G4/reset-loses-nothing",
        "0.33.0",
        "violated",
        "lost",
        "although object",
        marks=pytest.mark.full,
    ),
    pytest.param(
        "G5/clock-forward", "0.33.0", "violated", "lost", "although object", marks=pytest.mark.full
    ),
    ("R5/data-before-flag", "0.11.0", "violated", "wrong-data", "model only"),
    ("R5/data-before-flag", "0.12.0", "violated", "wrong-data", "model only"),
    ("R5/data-before-flag", "0.14.0", "violated", "wrong-data", "model only"),
    ("R5/data-before-flag", "0.17.0", "held", None, ""),
    ("R5/data-before-flag", "0.33.0", "held", None, ""),
    ("R5/slot-reuse", "0.33.0", "violated", "duplicate", "with stale loads"),
    ("R5/store-buffers", "0.33.0", "held", None, ""),
    ("G1/gathers", "0.8.4", "held", None, ""),
    ("S1/group-store-listener", "0.8.4", "violated", "exposure", "listens"),
    ("S1/group-store-listener", "0.8.5", "held", None, ""),
    ("G1/broadcasts", "0.8.5", "held", None, ""),
    *_POOLS,
]

SGLANG_RECORD = [
    ("Q6/writer-dies-after-overflow-marker", "0.5.23", "violated", "hang", "dead by signal 9"),
    ("Q10/departure-is-no-arrival", "0.5.23", "violated", "no-error", "departure of reader-0"),
    ("R7/decode-raises", "0.4.0", "violated", "wrong-data", "read again"),
    ("R7/decode-raises", "0.5.23", "violated", "wrong-data", "read again"),
    ("R8/fork-copy-of-writer", "0.5.23", "violated", "bad-transition", "fork's copy"),
    ("Q3/overwritten-after-enqueue-overflow", "0.5.23", "held", None, ""),
]

pytestmark = pytest.mark.network


def _resolved(release: str, project: str = "vllm") -> str:
    try:
        return resolve(f"{project}=={release}")
    except CannotWork as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no release archive can be had: {error}")


def _judged(release: str, name: str) -> CaseOutcome:
    case = select([name])[0]
    with Stage(_resolved(release)) as stage:
        trial = Trial(case.id, stage, seed=0, full=False, folder=None)
        return trial.judge(case.run)


@pytest.mark.parametrize(("case", "release", "expected", "kind", "words"), RECORD)
def test_release_is_judged_as_the_record_says(
    case: str, release: str, expected: str, kind: str | None, words: str
) -> None:
    outcome = _judged(release, case)
    assert (outcome.outcome, outcome.kind) == (expected, kind), outcome.cause
    assert words in outcome.cause


@pytest.mark.parametrize(("case", "release", "expected", "kind", "words"), SGLANG_RECORD)
def test_sglang_is_judged_as_the_record_says_and_its_violations_replay(
    case: str, release: str, expected: str, kind: str | None, words: str, tmp_path: Path
) -> None:
    spec = _resolved(release, "sglang")
    found = select([case])[0]
    with Stage(spec) as stage:
        trial = Trial(case, stage, seed=0, full=False, folder=tmp_path, target=spec)
        outcome = trial.judge(found.run)
    assert (outcome.outcome, outcome.kind) == (expected, kind), outcome.cause
    assert words in outcome.cause
    if expected == "violated":
        assert outcome.replay is not None
        again = replay(Path(outcome.replay))
        assert (again.status(), again.outcomes[0].kind) == (1, kind)
