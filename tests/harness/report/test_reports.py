"""The card for people and verdict.json for scripts say the same."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from killpoint.findings.rows import NO_REGISTRY
from killpoint.judgement.judge import Judgement
from killpoint.report import verdict_json
from killpoint.report.card import print_card, summary
from killpoint.verdict import CaseOutcome, CaseViolation, InvariantVerdict, VerdictWord


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
    assert found["target"] == {"name": "t", "version": "1", "code": ""}
    assert len(found["judge"]) == 64
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


def _shown(id: str, whose: str, how: str) -> CaseOutcome:
    outcome = CaseOutcome(id, id.split("/")[0], "violated", kind="hang", cause="it hung", runs=1)
    told = CaseViolation("hang", "it hung", replay=f"runs/1/{id}.toml", finding=whose, how=how)
    outcome.violations.append(told)
    return outcome


def _violated(*cases: CaseOutcome) -> Judgement:
    verdicts = [InvariantVerdict(c.invariant, "MUST", "violated", "1 run", [c]) for c in cases]
    return Judgement("vllm", "1", [], 0, "cpu", False, verdicts)


def test_the_card_tells_the_findings_first_the_worst_impact_before_others() -> None:
    how = "its switch-off ends it"
    cases = [
        _shown("Q6/a", "new", "it is there with every known finding switched off"),
        _shown("W5/queue-full", "deaf-writer", how),
        _shown("W6/b", "late-replies", how),
        _shown("W8/c", "late-replies", how),
    ]
    card = _card(_violated(*cases), width=200)
    places = [
        card.index(words)
        for words in (
            "✗ bites: late-replies: after one worker call",
            "MultiprocExecutor.collective_rpc.get_response; 2 cases, best by W6/b",
            "killpoint show late-replies",
            "killpoint replay runs/1/W6/b.toml",
            "✗ placed: deaf-writer: ",
            "✗ new: it hung",
            "id  level  verdict",
            "✗ W6/b: hang",
            "finding: late-replies (its switch-off ends it)",
        )
    ]
    assert places == sorted(places)


def test_where_the_registry_knows_nothing_of_a_target_the_card_names_no_findings() -> None:
    card = _card(_violated(_shown("Q6/a", "new", NO_REGISTRY)))
    assert "new" not in card
    assert "finding" not in card
    card = _card(_violated(_shown("Q6/a", "new", "3 plays did not show it again")))
    assert "✗ new: it hung" in card


def test_the_card_says_what_was_not_attributed() -> None:
    case = _shown("Q6/a", "new", "")
    case.violations[0].finding = None
    assert "1 violation not attributed to a finding" in _card(_violated(case))


def test_what_a_target_cannot_be_asked_is_one_line() -> None:
    lacks: dict[str, str] = {"G1": "group", "G2": "group", "W1": "pool"}
    verdicts = [
        InvariantVerdict(id, "MUST", "unsupported", f"target lacks {what}", [])
        for id, what in lacks.items()
    ]
    verdicts.insert(0, InvariantVerdict("Q1", "MUST", "holds", "4 runs", []))
    card = _card(Judgement("t", "1", [], 0, "cpu", False, verdicts))
    line = "- unsupported: G1, G2 (target lacks group); W1 (target lacks pool)"
    assert line in card
    assert card.count("unsupported") == 2  # the other one is the last line's count
    assert "✓ holds" in card
