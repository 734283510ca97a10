"""The summary of a job: short at first sight, whole when unfolded, never longer than is taken."""

from __future__ import annotations

from pathlib import Path

from made_runs import case, found, hang, stored

from killpoint.findings.rows import NO_REGISTRY
from killpoint.report.gate import gate
from killpoint.report.job_summary import failure, markdown
from killpoint.report.known import Known


def test_verdicts_are_a_table_and_strengths_are_folded(tmp_path: Path) -> None:
    run = stored(tmp_path, hang("Q6/hung"), case("Q6/well"), case("R3/held", counts={"sizes": 9}))
    text = markdown(run, gate(run))
    assert text.startswith("## killpoint: own 1.5\n\nnew violations: 1 (seed 4, cpu, 2 s)\n")
    assert "| ✗ | Q6 | MUST | **violated** | 1 | 2 |\n| ✓ | R3 | MUST | holds | 1 | 1 |" in text
    folded = text.partition("<details><summary>strength</summary>")[2]
    assert "- **R3** 1 run, 1 case, 9 sizes" in folded


def test_a_violation_is_told_with_cause_and_replay_whatever_it_quotes(tmp_path: Path) -> None:
    run = stored(tmp_path, hang("Q6/hung", "it said ```</details> | $x$"))
    text = markdown(run, gate(run))
    assert "### ✗ Q6/hung: hang" in text
    assert "````text\nit said ```</details> | $x$\n  1 ms writer <sent>\n````" in text
    assert "```text\nkillpoint replay runs/x/replays/Q6-hung.toml\n```" in text


def test_names_are_no_markup(tmp_path: Path) -> None:
    run = stored(tmp_path, case("R3/held"), target="a|b_c*", version="<1>")
    assert "## killpoint: a\\|b\\_c\\* \\<1\\>\n" in markdown(run, gate(run))


def test_what_is_known_is_folded_what_is_gone_and_a_doubt_are_not(tmp_path: Path) -> None:
    known = [
        Known("Q6/hung", "hang", "own", cause="waited", note="ours"),
        Known("R3/held", "lost", "own", cause="never came"),
    ]
    doubt = case("W3/unsure", "inconclusive", cause="its point was not reached")
    run = stored(tmp_path, hang("Q6/hung"), case("R3/held"), doubt, left_out=("W4/x",))
    text = markdown(run, gate(run, known))
    assert "### ✗ R3/held: known failure no longer fails" in text
    assert "### ? W3/unsure: inconclusive\n\n```text\nits point was not reached\n```" in text
    assert "<summary>known failures (1)</summary>\n\n- Q6/hung (hang) of own: ours" in text
    assert "<summary>left out, the budget was spent (1)</summary>\n\n- W4/x" in text
    assert "### ✗ Q6/hung" not in text


def test_it_stays_below_what_github_takes(tmp_path: Path) -> None:
    run = stored(tmp_path, *(hang(f"Q6/c{n}", "long " * 10_000) for n in range(30)))
    text = markdown(run, gate(run))
    assert len(text.encode()) < 1 << 20
    assert text.rstrip().endswith("more are in the run's folder")


def test_a_run_that_could_not_be_made_says_why() -> None:
    assert "no space left" in failure("vllm==0.33.0", "no space left")


def test_findings_are_a_table_that_begins_with_what_bites(tmp_path: Path) -> None:
    shown = [found("W5/queue-full", "deaf-writer"), found("Q6/a", "deaf-reader")]
    run = stored(tmp_path, *shown, target="vllm")
    text = markdown(run, gate(run))
    assert text.index("| **bites** | deaf-reader | workers wait") < text.index("| **placed** |")
    assert text.index("| **placed** |") < text.index("| | invariant")
    assert "### ✗ Q6/a: hang (bites: deaf-reader)" in text
    own = stored(tmp_path / "own", found("Q6/a", "new", how=NO_REGISTRY))
    assert "finding" not in markdown(own, gate(own))
