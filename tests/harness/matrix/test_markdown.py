from pathlib import Path

import pytest
from stored_rows import ASKED, CASE, stored

from killpoint.matrix.change import changes
from killpoint.matrix.column import Column
from killpoint.matrix.markdown import write
from killpoint.matrix.replays import copy
from killpoint.matrix.result_row import Row
from killpoint.verdict import CaseViolation


@pytest.fixture
def made(tmp_path: Path) -> list[Column]:
    """Two columns: one reproduced, one whose violation left no replay."""
    found = []
    for target, replay in (("vllm==0.26.0", "found"), ("vllm==0.25.0", None)):
        place, row = stored(tmp_path / "runs", target, replay)
        run = place.run(row)
        copies = copy(run, tmp_path / "matrix" / "replays" / place.slug)
        row.replayed = dict.fromkeys(copies, "reproduced")
        found.append(Column(row, run, copies, confirmed=True))
    return found


def _written(folder: Path, made: list[Column], *absent: Row) -> str:
    write(folder / "matrix.md", made, list(absent), changes(each.run for each in made))
    return (folder / "matrix.md").read_text()


def test_the_page_says_of_each_column_what_made_it_and_when(tmp_path: Path, made: list[Column]):
    made[1].confirmed = False
    text = _written(tmp_path, made)
    assert "Each invariant on 2 targets" in text
    words = f"--only {CASE} --budget 5 --seed 0 --shrink 0"
    command = f"killpoint matrix --targets vllm==0.25.0 {words}"
    assert f"| vllm 0.25.0 | 2026-01-02 | 1 | `{command}` |" in text
    again = command.replace("0.25.0", "0.26.0") + " --confirm"
    assert f"| vllm 0.26.0 | 2026-01-02 | 1 | `{again}` |" in text
    assert "- 0.26.0: the last release that sends whole tensors in band" in text


def test_each_cell_leads_to_its_page_and_from_there_to_the_replay(
    tmp_path: Path, made: list[Column]
):
    assert "[✗](matrix/vllm-0.26.0.md#r7)" in _written(tmp_path, made)
    cell = (tmp_path / "matrix" / "vllm-0.26.0.md").read_text()
    assert "## R7\n" in cell
    assert "made on 2026-01-02" in cell
    link = "[R7.toml](replays/vllm-0.26.0/R7.toml)"
    assert f"Replay: {link}; played once more: reproduced" in cell
    assert (tmp_path / "matrix" / "replays" / "vllm-0.26.0" / "R7.toml").read_text() == "found"


def test_a_violation_that_did_not_come_again_is_not_hidden(tmp_path: Path, made: list[Column]):
    made[0].row.replayed[CASE] = "held"
    text = _written(tmp_path, made)
    assert "Violated cases: 2, of which 1 have a replay." in text
    assert "each played once more: 0 of 2." in text
    assert f"- `vllm==0.26.0` `{CASE}`: held" in text
    assert f"- `vllm==0.25.0` `{CASE}`: no replay was kept" in text


def test_a_cell_whose_replay_did_not_show_it_again_is_marked(tmp_path: Path, made: list[Column]):
    text = _written(tmp_path, made)
    assert "[✗](matrix/vllm-0.26.0.md#r7)" in text
    assert "[✗°](matrix/vllm-0.25.0.md#r7)" in text
    assert "✗° violated, and a replay did not show it again" in text


def test_each_finding_has_a_row_with_the_targets_that_have_it(tmp_path: Path, made: list[Column]):
    assert "## Findings" not in _written(tmp_path, made)
    first, second = (each.run.cases()[0] for each in made)
    first.violations = [CaseViolation("hang", "it hangs", finding="late-replies", how="so")]
    second.id, second.outcome, second.violations = "W6/method-raises", "held", []
    text = _written(tmp_path, made)
    told = "`late-replies`: after one worker call that failed or ran out of time, every later call"
    (row,) = [line for line in text.splitlines() if line.startswith(f"| {told}")]
    assert row.endswith("| bites | ✓ | ✗ |")
    cell = (tmp_path / "matrix" / "vllm-0.26.0.md").read_text()
    assert "Findings: hang: `late-replies`, so." in cell


def test_what_became_of_findings_with_a_release_is_told(tmp_path: Path, made: list[Column]):
    after, before = (each.run.cases()[0] for each in made)
    before.violations = [CaseViolation("hang", "it hangs", finding="poisoned-slot")]
    after.violations = [CaseViolation("hang", "it hangs", finding="new")]
    text = _written(tmp_path, made)
    assert "## From release to release" in text
    assert (
        "- vllm 0.26.0 after vllm 0.25.0: gone (1): poisoned-slot;"
        f" explained by no finding (1): {CASE}"
    ) in text


def test_a_violation_that_nobody_attributed_is_counted(tmp_path: Path, made: list[Column]):
    made[0].run.cases()[0].violations = [CaseViolation("hang", "it hangs")]
    assert "| 1 (1 without a finding: not attributed) |" in _written(tmp_path, made)


def test_nothing_is_said_of_replays_that_nobody_asked_to_play(tmp_path: Path, made: list[Column]):
    for each in made:
        each.confirmed = False
    text = _written(tmp_path, made)
    assert "reproduced" not in text.lower()
    assert "✗°" not in text
    assert "played once more" not in (tmp_path / "matrix" / "vllm-0.26.0.md").read_text()


def test_a_target_that_could_not_be_had_is_told(tmp_path: Path, made: list[Column]):
    text = _written(tmp_path, made, Row("vllm==0.15.0", ASKED, trouble="no such release"))
    assert "- `vllm==0.15.0`: infrastructure: no such release" in text


def test_no_folder_of_the_machine_is_told_and_no_text_is_markup(tmp_path: Path, made: list[Column]):
    _written(tmp_path, made)
    cell = (tmp_path / "matrix" / "vllm-0.26.0.md").read_text()
    assert "in …/q.py:7, it came \\*twice\\*" in cell
    assert "reader-0 at …/q.py:9" in cell
    assert str(tmp_path) not in cell
