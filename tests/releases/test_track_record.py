"""Published releases told apart by named cases: what docs/track-record.md claims."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from killpoint.cases import select
from killpoint.errors import CannotWork
from killpoint.judgement.replay import play_once
from killpoint.runner.stage import Stage
from killpoint.scenario import load
from killpoint.search.case_run import CaseRun
from killpoint.targets.registry import resolve

QUEUES_CHANGED = ("0.11.0", "0.16.0", "0.18.0", "0.26.0", "0.27.0", "0.33.0")
"""Where what Q8 and Q13 rest on changed, and the newest."""

_LATE = {"0.11.0": "", "0.16.0": "", "0.18.0": "60 s", "0.26.0": "60 s"}
"""How much later a reader woke whose subscription came late; else 5 s."""


def _explored(case: str, *expected: object) -> list[object]:
    """A row for each of these releases; but for the newest they are long."""
    *older, newest = QUEUES_CHANGED
    rows = [_long(case, release, *expected) for release in older]
    return [*rows, (case, newest, *expected)]


def _late() -> list[object]:
    rows: list[object] = []
    for release in QUEUES_CHANGED:
        late = _LATE.get(release, "5 s")
        came = ("violated", "late", f"it woke {late} later") if late else ("held", None, "")
        row = ("Q8/late-subscription", release, *came)
        rows.append(row if release == QUEUES_CHANGED[-1] else _long(*row))
    return rows


def _long(*row: object) -> object:
    """A row that takes many seconds, and tells nothing of the harness that others do not."""
    return pytest.param(*row, marks=pytest.mark.full)


_POOLS = [
    ("W2/late-reply-after-timeout", "0.33.0", "violated", "wrong-data", "given the reply to call"),
    _long("W3/killed-during-call-without-deadline", "0.10.1", "violated", "hang", "waited in call"),
    _long("W3/killed-during-call-without-deadline", "0.10.2", "held", None, ""),
    _long("W4/parent-killed-fork", "0.17.1", "violated", "leak", "still there 5 s after"),
    _long("W4/parent-killed-fork", "0.18.0", "held", None, ""),
    _long("C2/second-wake-after-unanswered", "0.28.0", "violated", "lost", "does not wake engine-"),
    _long("C2/second-wake-after-unanswered", "0.29.0", "held", None, ""),
    ("C4/engine-lies", "0.33.0", "violated", "crash", "sent what makes no sense"),
    _long("C5/clock-back", "0.33.0", "violated", "starved", "never heard of the counts"),
    _long("C6/parent-killed", "0.33.0", "violated", "no-error", "the coordinator ended"),
    *(
        pytest.param(case, release, "violated", kind, words, marks=pytest.mark.full)
        for case, release, kind, words in (
            ("W2/late-reply-after-timeout", "0.8.5", "wrong-data", "given the reply to call"),
            ("W2/after-a-failed-call", "0.33.0", "wrong-data", "given the reply to call"),
            ("W2/after-an-interrupted-call", "0.33.0", "wrong-data", "given the reply to call"),
            ("W3/told-before-the-grace-is-over", "0.33.0", "late", "told of the death"),
            ("W4/parent-killed-while-loading-fork", "0.33.0", "leak", "still there 5 s after"),
            ("W4/parent-killed-while-one-waits", "0.33.0", "leak", "did not end it within 2 s"),
            ("W5/queue-full", "0.33.0", "hang", "waited in call"),
        )
    ),
]
"""Of worker pools and coordinators: what came with a release and went with another."""

_PIPES = [
    _long("K2/send-fails-once", "0.12.0", "violated", "hang", "4096 bytes stay in the buffer"),
    _long("K3/send-fails-once", "0.12.0", "violated", "no-error", "its close included"),
    ("K7/both-receive-first", "0.12.0", "violated", "hang", "waited in pipe-meet"),
    *(
        _long(case, "0.12.0", "violated", kind, words)
        for case, kind, words in (
            ("K2/memory-is-bounded", "growth", "MiB of memory"),
            ("K4/second-killed-while-the-other-waits", "hang", "waits for pipe-1, dead"),
            ("K5/overwritten-before-it-is-taken", "wrong-data", "pipe-1"),
            ("K6/fewer-bytes-than-told", "wrong-data", "nobody sent"),
        )
    ),
    _long("K3/send-fails-once", "0.8.5", "violated", "no-error", "its close included"),
]
"""Of pipes, in the last release that has one."""

RECORD = [
    *(_long("Q8/every-schedule", release, "held", None, "") for release in QUEUES_CHANGED),
    *_late(),
    *_explored("Q13/two-senders-every-schedule", "violated", "lost", "never came"),
    *_explored("Q13/two-receivers-every-schedule", "violated", "duplicate", "came twice"),
    _long("R7/undecodable-message", "0.26.0", "violated", "duplicate", "never marked read"),
    _long("R7/undecodable-message", "0.27.0", "held", None, ""),
    _long(
        "R6/held-array-after-lap", "0.31.0", "violated", "wrong-data", "wrote to its memory again"
    ),
    _long("R6/held-array-after-lap", "0.32.0", "held", None, ""),
    ("Q6/writer-dies-after-overflow-marker", "0.33.0", "violated", "hang", "dead by signal 9"),
    _long("Q6/writer-killed-after-large-send", "0.33.0", "violated", "hang", "had returned"),
    _long("Q17/attached-again", "0.33.0", "violated", "reordered", "attached again"),
    ("Q16/closed-after-60MB", "0.32.0", "violated", "lost", "went with the writer's end"),
    ("Q16/closed-after-60MB", "0.31.0", "held", None, ""),
    (
        "Q3/overwritten-after-enqueue-overflow",
        "0.33.0",
        "violated",
        "wrong-data",
        "caller's memory",
    ),
    ("Q3/overwritten-after-enqueue-remote", "0.33.0", "violated", "wrong-data", "caller's memory"),
    _long("Q3/overwritten-after-enqueue-remote", "0.11.0", "held", None, ""),
    ("Q5/slow-remote-reader", "0.33.0", "violated", "lost", "dropped in silence"),
    _long("Q18/cut-past-silence-is-told", "0.33.0", "violated", "hang", "never noticed"),
    _long("Q9/receive-marker-late", "0.33.0", "violated", "late", "timeout 3 s took"),
    ("Q10/departure-is-no-arrival", "0.33.0", "violated", "no-error", "departure of reader-0"),
    _long("Q12/busy-readers", "0.17.1", "held", None, ""),
    _long("Q12/busy-readers", "0.18.0", "violated", "growth", "'s private memory grew by "),
    _long("Q12/busy-readers", "0.32.0", "violated", "growth", "'s private memory grew by "),
    _long("Q12/busy-readers", "0.33.0", "held", None, ""),
    ("R8/fork-copy-of-writer", "0.33.0", "violated", "bad-transition", "fork's copy"),
    ("G1/all-to-all", "0.33.0", "violated", "wrong-data", ", which rank-"),
    _long("G2/large-objects", "0.33.0", "violated", "growth", "rank-0's private memory grew"),
    _long("G3/absent-host", "0.33.0", "violated", "hang", "broadcast_obj"),
    ("G4/host-leaves-after-broadcast", "0.33.0", "violated", "lost", "although object"),
    ("G4/cut-3s-loses-nothing", "0.33.0", "held", None, ""),
    _long("G4/cut-past-silence-is-told", "0.33.0", "violated", "hang", "never noticed"),
    _long("G4/reset-loses-nothing", "0.33.0", "violated", "lost", "although object"),
    _long("G5/clock-forward", "0.33.0", "violated", "lost", "although object"),
    _long("R5/data-before-flag", "0.11.0", "violated", "wrong-data", "model only"),
    _long("R5/data-before-flag", "0.12.0", "violated", "wrong-data", "model only"),
    _long("R5/data-before-flag", "0.14.0", "violated", "wrong-data", "model only"),
    _long("R5/data-before-flag", "0.17.0", "held", None, ""),
    _long("R5/data-before-flag", "0.33.0", "held", None, ""),
    ("R5/slot-reuse", "0.33.0", "violated", "duplicate", "with stale loads"),
    _long("R5/store-buffers", "0.33.0", "held", None, ""),
    _long("G1/gathers", "0.8.4", "held", None, ""),
    ("S1/group-store-listener", "0.8.4", "violated", "exposure", "listens"),
    _long("S1/group-store-listener", "0.8.5", "held", None, ""),
    ("G1/broadcasts", "0.8.5", "held", None, ""),
    *_POOLS,
    *_PIPES,
]

SGLANG_RECORD = [
    ("Q6/writer-dies-after-overflow-marker", "0.5.23", "violated", "hang", "dead by signal 9"),
    ("Q10/departure-is-no-arrival", "0.5.23", "violated", "no-error", "departure of reader-0"),
    ("R7/decode-raises", "0.4.0", "violated", "wrong-data", "read again"),
    ("R7/decode-raises", "0.5.23", "violated", "wrong-data", "read again"),
    ("R8/fork-copy-of-writer", "0.5.23", "violated", "bad-transition", "fork's copy"),
    ("Q3/overwritten-after-enqueue-overflow", "0.5.23", "held", None, ""),
    _long("Q6/writer-dies-while-readers-wait", "0.5.23", "violated", "hang", "acquire_read"),
    _long("Q7/reader-dies-while-writer-waits", "0.5.23", "violated", "hang", "acquire_write"),
    _long("Q11/close-with-unread-overflow", "0.5.23", "violated", "hang", "waited in close"),
]


def _resolved(release: str, project: str = "vllm") -> str:
    try:
        return resolve(f"{project}=={release}")
    except CannotWork as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no release archive can be had: {error}")


class _Stages:
    """The stage of the release that was asked for last: rows of one release follow each other."""

    def __init__(self) -> None:
        self._spec, self._stage = "", None

    def of(self, spec: str) -> Stage:
        if spec != self._spec or self._stage is None:
            self.close()
            self._stage = Stage(spec)
            self._spec = spec
        return self._stage

    def close(self) -> None:
        if self._stage is not None:
            self._stage.close()
        self._stage = None


@pytest.fixture(scope="module")
def stages() -> Iterator[_Stages]:
    made = _Stages()
    yield made
    made.close()


def _values(row: object) -> tuple[str, ...]:
    return row.values if isinstance(row, type(pytest.param())) else row


def _by_release(row: object) -> str:
    return _values(row)[1]


def test_each_command_of_the_record_is_one_that_is_tested() -> None:
    """Those of the README's first screen are exhibits: ``test_switch_offs`` shows each of them."""
    text = (Path(__file__).parents[2] / "docs" / "track-record.md").read_text("utf-8")
    claimed = re.findall(r"^\| .*`killpoint check --target (\w+)==(\S+) --only (\S+)`", text, re.M)
    tested = {("vllm", *_values(row)[1::-1]) for row in RECORD}
    tested |= {("sglang", *_values(row)[1::-1]) for row in SGLANG_RECORD}
    assert len(claimed) >= 5
    assert set(claimed) <= tested


@pytest.mark.network
@pytest.mark.parametrize(
    ("case", "release", "expected", "kind", "words"), sorted(RECORD, key=_by_release)
)
def test_release_is_judged_as_the_record_says(
    stages: _Stages, case: str, release: str, expected: str, kind: str | None, words: str
) -> None:
    found = select([case])[0]
    case_run = CaseRun(case, stages.of(_resolved(release)), seed=0, full=False, folder=None)
    outcome = case_run.judge(found.run)
    assert (outcome.outcome, outcome.kind) == (expected, kind), outcome.cause
    assert words in outcome.cause


@pytest.mark.network
@pytest.mark.parametrize(
    ("case", "release", "expected", "kind", "words"), sorted(SGLANG_RECORD, key=_by_release)
)
def test_sglang_is_judged_as_the_record_says_and_its_violations_replay(
    stages: _Stages,
    case: str,
    release: str,
    expected: str,
    kind: str | None,
    words: str,
    tmp_path: Path,
) -> None:
    spec = _resolved(release, "sglang")
    found = select([case])[0]
    stage = stages.of(spec)
    case_run = CaseRun(case, stage, seed=0, full=False, folder=tmp_path, target=spec)
    outcome = case_run.judge(found.run)
    assert (outcome.outcome, outcome.kind) == (expected, kind), outcome.cause
    assert words in outcome.cause
    if expected == "violated":
        assert outcome.replay is not None
        kept = load(Path(outcome.replay))
        assert kept.target == spec
        again = play_once(stage, kept, spec)
        assert (again.status(), again.outcomes[0].kind) == (1, kind)
