"""Findings: one folder for a signature, every sight of it in a line, read back as a run."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from killpoint.campaign import findings as campaign_findings
from killpoint.campaign.findings import Findings
from killpoint.campaign.history import CampaignHistory
from killpoint.campaign.item import Item
from killpoint.campaign.settings import Settings
from killpoint.campaign.summary import print_summary
from killpoint.campaign.work_order import Found, Target, WorkResult
from killpoint.findings.attribution import Attribution
from killpoint.report.run_folder import read
from killpoint.verdict import CaseOutcome, CaseViolation, Violation

_TARGET = Target("broken", "1", [])
_CASE = "R1/two-readers"


def _found(cause: str) -> Found:
    outcome = CaseOutcome(_CASE, "R1", "violated", "lost", cause, evidence=["0.1 ms"])
    return Found(outcome, "title = 'as it was found'\n", {"writer.jsonl": b"{}\n"})


def _keep(findings: Findings, cause: str, round: int = 0) -> tuple[str, bool]:
    return findings.keep(_found(cause), Item(_CASE, round, seed=round), _TARGET, "cpu")


def test_the_same_cause_with_other_numbers_is_one_finding_seen_twice(tmp_path: Path) -> None:
    findings = Findings(tmp_path)
    name, first = _keep(findings, "reader 1 never got message 12 of 40")
    assert (first, _keep(findings, "reader 1 never got message 3 of 9", 1)) == (True, (name, False))
    _keep(findings, "the writer died by signal 11", 2)
    one, other = sorted(findings.all(), key=lambda finding: finding.seen[0].key)
    assert [sight.key for sight in one.seen] == [f"{_CASE}@0", f"{_CASE}@1"]
    assert [sight.seed for sight in other.seen] == [2]
    assert one.case.cause == "reader 1 never got message 12 of 40"


def test_an_item_that_is_played_again_after_a_sudden_end_counts_once(tmp_path: Path) -> None:
    findings = Findings(tmp_path)
    name, _ = _keep(findings, "reader 1 never got message 12")
    seen = findings.place(name) / "seen.jsonl"
    seen.write_bytes(seen.read_bytes() + b'{"signature":"R1/two')
    assert _keep(findings, "reader 1 never got message 12") == (name, False)
    assert [sight.key for sight in findings.one(name).seen] == [f"{_CASE}@0"]


def test_a_folder_whose_finding_was_never_seen_is_written_anew(tmp_path: Path) -> None:
    findings = Findings(tmp_path)
    name, _ = _keep(findings, "reader 1 never got message 12")
    (findings.place(name) / "seen.jsonl").unlink()
    assert findings.all() == []
    assert _keep(findings, "reader 1 never got message 13") == (name, True)
    assert findings.one(name).case.cause == "reader 1 never got message 13"


def test_a_finding_is_a_run_of_one_case_with_the_record_of_its_play(tmp_path: Path) -> None:
    findings = Findings(tmp_path)
    name, _ = _keep(findings, "reader 1 never got message 12")
    place = findings.place(name)
    (case,) = read(place).cases()
    assert (case.id, case.outcome, case.kind) == (_CASE, "violated", "lost")
    assert case.replay == str(place / "scenario.toml")
    assert (place / "plays/R1-two-readers/writer.jsonl").read_bytes() == b"{}\n"


@pytest.mark.parametrize("word", ["reproduced", "held"])
def test_what_shrinking_came_to_is_kept_with_the_finding(tmp_path: Path, word: str) -> None:
    findings = Findings(tmp_path)
    name, _ = _keep(findings, "reader 1 never got message 12")
    small = "title = 'smaller'\n" if word == "reproduced" else ""
    findings.shrunk(name, WorkResult("shrink", word, shrunk=small, shrinkage="9 to 3 steps"))
    found = findings.one(name)
    assert found.replay is not None
    assert found.replay.name == ("shrunk.toml" if small else "scenario.toml")
    assert found.case.shrinkage == ("9 to 3 steps" if small else "played again: held")
    assert msgspec.json.decode((found.folder / "verdict.json").read_bytes())["seed"] == 0


def test_its_violation_is_played_again_from_the_folder_that_keeps_it(tmp_path: Path) -> None:
    findings = Findings(tmp_path)
    found = _found("the writer died")
    found.outcome.add(Violation("crash", "the writer died"), "/of/a/worker.toml")
    name, _ = findings.keep(found, Item(_CASE, 0, seed=0), _TARGET, "cpu")
    (violation,) = findings.one(name).case.violations
    assert violation.replay == str(findings.one(name).replay)


def test_findings_are_told_by_root_causes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Knows(Attribution):
        def of(self, case: str, violation: CaseViolation) -> None:
            asked.append(case)
            violation.finding, violation.how = "late-replies", "its switch-off ends it"

    monkeypatch.setattr(campaign_findings, "Attribution", Knows)
    findings = Findings(tmp_path)
    name, _ = findings.keep(
        _violated("reader 1 never got message 12"), Item(_CASE, 0, seed=0), _TARGET, "cpu"
    )
    for _ in range(2):
        findings.attribute("refengine", time.monotonic() + 60, print)
    assert asked == [_CASE]
    (kept,) = findings.all()
    assert kept.case.violations[0].finding == "late-replies"
    console = Console(record=True, width=200)
    past = CampaignHistory([])
    print_summary(Settings(target="vllm==0.33.0"), past, [kept], console, tmp_path)
    said = console.export_text()
    assert f"✗ {name}  seen 1 time  (bites: late-replies)" in said
    assert "✗ bites: late-replies: after one worker call" in said


def _violated(cause: str) -> Found:
    outcome = CaseOutcome(_CASE, "R1", "inconclusive")
    outcome.add(Violation("lost", cause))
    return Found(outcome, "", {})
