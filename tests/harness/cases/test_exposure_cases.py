"""S1 and S3 on a small queue over TCP: what is safe is held, each way to be open is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from killpoint.cases import select
from killpoint.runner.stage import Stage
from killpoint.search.case_run import CaseRun
from killpoint.verdict import CaseOutcome

_CASES = (
    "S1/remote-queue-listeners",
    "S3/listening-stranger",
    "S3/speaking-stranger",
    "S3/stranger-at-the-handshake",
    "S3/keys-unseen",
)


def _tried(stage: Stage, name: str) -> CaseOutcome:
    case = select([name])[0]
    case_run = CaseRun(case.id, stage, seed=3, full=False, folder=None)
    return case_run.judge(case.run, case.needs - set(stage.zygote.loaded.capabilities))


@pytest.fixture(scope="module")
def safe() -> Iterator[Stage]:
    with Stage("remote_queue:Safe") as stage:
        yield stage


@pytest.mark.parametrize("name", _CASES)
def test_a_safe_queue_holds(safe: Stage, name: str) -> None:
    outcome = _tried(safe, name)
    assert outcome.outcome == "held", outcome


@pytest.mark.parametrize(
    ("variant", "name", "words"),
    [
        ("Wide", "S1/remote-queue-listeners", "writer listens on all addresses"),
        ("Plain", "S3/listening-stranger", "read message 0 at port"),
        ("Decodes", "S3/speaking-stranger", "writer decoded what a stranger"),
        ("Decodes", "S3/stranger-at-the-handshake", "writer decoded what a stranger"),
        ("Shows", "S3/keys-unseen", "the handle's repr"),
        ("Logs", "S3/keys-unseen", "its standard error"),
    ],
)
def test_each_way_to_be_open_is_found(variant: str, name: str, words: str) -> None:
    with Stage(f"remote_queue:{variant}") as stage:
        outcome = _tried(stage, name)
    assert (outcome.outcome, outcome.kind) == ("violated", "exposure"), outcome
    assert words in outcome.cause


def test_a_queue_without_keys_is_not_asked_to_hide_them() -> None:
    with Stage("remote_queue:Plain") as stage:
        outcome = _tried(stage, "S3/keys-unseen")
    assert (outcome.outcome, outcome.replay) == ("unsupported", None)
    assert "no secret" in outcome.cause


def test_a_stranger_is_gone_after_the_play_and_a_leak_of_nobody(safe: Stage) -> None:
    case = select(["S3/listening-stranger"])[0]
    case_run = CaseRun(case.id, safe, seed=0, full=False, folder=None)
    case_run.judge(case.run)
    assert case_run.leaks == []
    assert safe.zygote.descendants() == []
