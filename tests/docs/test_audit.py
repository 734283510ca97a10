"""The matrix's column of vLLM 0.33.0 beside an audit of that release by hand (docs/findings.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from killpoint.findings.registry import finding
from killpoint.matrix.column import Beside
from killpoint.report.run_folder import StoredCase

_PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"

AUDITED = {
    "R5/slot-reuse": "stale-flag",
    "R8/fork-copy-of-writer": "fork-copy-unlinks",
    "R9/exception-in-send": "half-sent",
    "Q2/late-overflow-payload": "late-payload",
    "Q3/overwritten-after-enqueue-overflow": "altered-after-enqueue",
    "Q5/slow-remote-reader": "dropped-for-slow-reader",
    "Q6/writer-dies-after-overflow-marker": "deaf-reader",
    "Q7/reader-dies-idle": "deaf-writer",
    "Q8/late-subscription": "late-subscription",
    "Q9/receive-marker-late": "deadline-twice",
    "Q10/killed-in-handshake": "deaf-start",
    "Q13/two-senders-every-schedule": "one-thread-only",
    "Q15/full-under-load": "unreserved-memory",
    "Q16/closed-after-60MB": "closed-unsent",
    "Q17/unknown-remote-rank": "any-rank-is-taken",
    "Q17/duplicate-rank": "any-rank-is-taken",
    "Q18/cut-past-silence-is-told": "silent-cut",
    "G1/all-to-all": "confused-senders",
    "G2/many-small-objects": "store-grows",
    "G3/killed-while-joining": "unnamed-rank",
    "G4/host-killed-in-any-call": "unnamed-rank",
    "G5/clock-forward": "expiry-by-wall-clock",
    "W2/late-reply-after-timeout": "late-replies",
    "W3/told-before-the-grace-is-over": "told-after-grace",
    "W4/parent-killed-while-loading": "late-death-watch",
    "W4/parent-killed-while-loading-fork": "late-death-watch",
    "W4/parent-killed-while-loading-spawn": "late-death-watch",
    "W5/stopped-worker": "late-replies",
    "W6/method-raises": "late-replies",
    "W7/raises-while-made": "deaf-start",
    "W8/failed-among-futures": "late-replies",
    "W9/default-start": "",
    "C4/engine-lies": "undecoded-frame",
    "C5/clock-back": "elapsed-by-wall-clock",
    "C6/engine-killed": "",
    "C7/flood-in-a-wave": "starved-publication",
    "S2/umask-000": "sockets-by-umask",
    "S3/listening-stranger": "open-port",
    "L1/killed-while-making": "ipc-paths-stay",
    "L1/every-play": "ipc-paths-stay",
}
"""What each case that the audit read is a case of; nothing, where it is no violation any more."""

SERIOUS = {
    *(
        "late-replies",
        "deaf-reader",
        "altered-after-enqueue",
        "confused-senders",
        "undecoded-frame",
    ),
    *("deaf-start", "late-death-watch", "unreserved-memory", "silent-cut"),
}
"""The nine that the audit calls so."""

SELDOM = {"C7/flood-in-a-wave"}
"""What a machine that sends slowly does not show: there it holds."""

HIDDEN = {"G3/killed-while-joining"}
"""Where the column has something else that came first, a late join, and was not shown again.
G4/host-killed-in-any-call has the audit's root cause."""


@pytest.fixture(scope="module")
def cases() -> dict[str, StoredCase]:
    (column,) = Beside(_PAGE).of("vllm-0.33.0")
    return {case.id: case for case in column.run.cases()}


@pytest.mark.parametrize("id", AUDITED)
def test_an_audited_case_belongs_to_the_audits_root_cause(
    id: str, cases: dict[str, StoredCase]
) -> None:
    told = cases[id].violations
    if not AUDITED[id] or (id in SELDOM and not told):
        assert told == []
        return
    if id in HIDDEN and {each.finding for each in told} == {"not-reproduced"}:
        return
    assert any(AUDITED[id] == each.finding or AUDITED[id] in each.how for each in told), told


def test_what_the_audit_calls_serious_bites() -> None:
    assert {finding(id).impact for id in SERIOUS} == {"bites"}
    assert {*AUDITED.values()} >= SERIOUS
