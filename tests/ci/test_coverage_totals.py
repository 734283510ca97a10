"""Totals of coverage: a line for each package, and a status that impl/ alone decides."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TOTALS = Path(__file__).parents[2] / "ci" / "coverage_totals.py"


def measured(lines: int, covered: int, branches: int, taken: int) -> dict[str, dict[str, int]]:
    summary = {"num_statements": lines, "covered_lines": covered}
    return {"summary": summary | {"num_branches": branches, "covered_branches": taken}}


def totals(folder: Path, least: int) -> tuple[int, list[str]]:
    files = {
        "impl/refengine/ring.py": measured(60, 60, 20, 20),
        "impl/refengine/pipe/wire.py": measured(80, 60, 20, 10),
        "harness/killpoint/ledger.py": measured(10, 1, 0, 0),
        "tests/impl/ends.py": measured(1000, 0, 0, 0),
    }
    report = folder / "coverage.json"
    report.write_text(json.dumps({"files": files}))
    asked = [sys.executable, str(TOTALS), str(report), str(least)]
    ran = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
    return ran.returncode, [" ".join(line.split()) for line in ran.stdout.splitlines()]


def test_packages_are_told_worst_first_and_then_their_sum(tmp_path: Path) -> None:
    assert totals(tmp_path, 80) == (
        0,
        [
            "impl/pipe 70.0 % 10 of 20 branches ( 50.0 %)",
            "impl/*.py 100.0 % 20 of 20 branches (100.0 %)",
            "impl/ 83.3 % 30 of 40 branches ( 75.0 %)",
            "",
            "harness/*.py 10.0 % 0 of 0 branches (100.0 %)",
            "harness/ 10.0 % 0 of 0 branches (100.0 %)",
            "",
        ],
    )


def test_too_little_of_impl_is_a_failure(tmp_path: Path) -> None:
    status, lines = totals(tmp_path, 84)
    assert status == 1
    assert lines[-1] == "impl/ is below 84 %"
