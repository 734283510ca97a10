"""The card for people and verdict.json for scripts say the same."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from killpoint.judge import Judgement
from killpoint.report import verdict_json
from killpoint.report.card import print_card, summary
from killpoint.verdict import CaseOutcome, InvariantVerdict, VerdictWord


def _judgement(name: str = "t", version: str = "1") -> Judgement:
    words: list[VerdictWord] = ["holds", "violated", "inconclusive", "unsupported"]
    outcomes: dict[str, Any] = {"holds": "held"}
    verdicts = [
        InvariantVerdict(
            f"R{n}",
            "MUST",
            word,
            f"strength {n}",
            [CaseOutcome(f"R{n}/case", f"R{n}", outcomes.get(word, word), runs=2)],
        )
        for n, word in enumerate(words, start=1)
    ]
    broken = verdicts[1].cases[0]
    broken.kind, broken.cause, broken.replay = "lost", "message [7] never arrived", "runs/x/r.toml"
    broken.evidence = ["1.0 ms writer [sent]"]
    verdicts[2].cases[0].cause = "its point was not reached"
    return Judgement(name, version, ["a note [sic]"], 4, "cpu", False, verdicts, 1.5, ["R9/left"])


def _card(judgement: Judgement, width: int = 100) -> str:
    out = io.StringIO()
    print_card(judgement, Console(file=out, width=width, no_color=True), "runs/1")
    return out.getvalue()


def test_the_card_is_legible_without_colour() -> None:
    card = _card(_judgement())
    for line in ("✓ holds", "✗ violated", "? inconclusive", " unsupported", "strength 3"):
        assert line in card
    assert "\x1b" not in card


def test_the_card_tells_the_cause_the_evidence_and_the_replay_of_a_violation() -> None:
    card = _card(_judgement(), width=100)
    for line in (
        "✗ R2/case: lost",
        "message [7] never arrived",
        "1.0 ms writer [sent]",
        "killpoint replay runs/x/r.toml",
        "R3/case: its point was not reached",
        "R9/left",
        "note: a note [sic]",
        "run: runs/1",
    ):
        assert line in card


def test_the_last_line_counts_the_verdicts() -> None:
    assert summary(_judgement()) == "1 holds, 1 violated, 1 inconclusive, 1 unsupported in 1.5 s"
    assert summary(Judgement("t", "1", [], 0, "cpu", False, [])) == "nothing ran in 0.0 s"


def test_a_version_in_brackets_is_printed() -> None:
    assert "1.0[cpu]" in _card(_judgement(version="1.0[cpu]"))


def test_verdict_json_has_the_shape_that_scripts_rely_on(tmp_path: Path) -> None:
    path = verdict_json.write(_judgement(), tmp_path)
    assert path == tmp_path / "verdict.json"
    found = json.loads(path.read_text("utf-8"))
    assert found["target"] == {"name": "t", "version": "1"}
    assert (found["seed"], found["device"]) == (4, "cpu")
    item = found["invariants"]["R2"]
    assert (item["level"], item["verdict"], item["strength"]) == ("MUST", "violated", "strength 2")
    (case,) = item["cases"]
    for key, value in {
        "id": "R2/case",
        "outcome": "violated",
        "kind": "lost",
        "cause": "message [7] never arrived",
        "replay": "runs/x/r.toml",
    }.items():
        assert case[key] == value


def test_verdict_json_tells_what_was_left_out() -> None:
    assert json.loads(verdict_json.text(_judgement()))["left_out"] == ["R9/left"]
