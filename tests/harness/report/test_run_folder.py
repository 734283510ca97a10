from pathlib import Path

import pytest

from killpoint.errors import BadUsage
from killpoint.invariants import CATALOGUE
from killpoint.judgement.judge import Judgement
from killpoint.report import verdict_json
from killpoint.report.run_folder import read
from killpoint.verdict import CaseOutcome, combine


def _written(folder: Path) -> Path:
    item = next(each for each in CATALOGUE if each.id == "R7")
    case = CaseOutcome("R7/undecodable-message", "R7", "violated", "duplicate", "came twice")
    case.evidence, case.replay = ["0.1 ms  reader-0"], "runs/x/replays/y.toml"
    verdict = combine(item, [case], [])
    verdict_json.write(Judgement("own", "1.0", [], 7, "cpu", False, [verdict]), folder)
    return folder


def test_a_run_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    run = read(_written(tmp_path))
    (case,) = run.cases()
    assert (run.target.name, run.seed, run.folder) == ("own", 7, tmp_path)
    assert (case.invariant, case.kind, case.evidence) == ("R7", "duplicate", ["0.1 ms  reader-0"])
    assert read(tmp_path / "verdict.json").cases() == run.cases()


def test_a_folder_without_a_run_is_told_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="expected the folder of a run"):
        read(tmp_path)


def test_a_damaged_verdict_is_told_with_its_place(tmp_path: Path) -> None:
    (_written(tmp_path) / "verdict.json").write_text('{"target": {"name": 3}}')
    with pytest.raises(BadUsage, match=r"verdict.json: .*\$.target.name.*expected verdict.json"):
        read(tmp_path)
