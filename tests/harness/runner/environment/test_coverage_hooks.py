"""Who is killed at a point has lost no coverage; where none is measured, nothing is done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from coverage import CoverageData

from killpoint.runner.stage import Stage
from killpoint.scenario import (
    Attach,
    Fault,
    Make,
    Message,
    Point,
    Ready,
    Receive,
    Scenario,
    Send,
    Wait,
)
from killpoint.targets.protocol import QueueShape

_ROOT = Path(__file__).parents[4]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """Its processes are measured as ``ci/coverage.sh`` has them, whatever this one is."""
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
    monkeypatch.setenv("COVERAGE_PROCESS_START", str(_ROOT / "pyproject.toml"))
    monkeypatch.setenv("COVERAGE_FILE", str(tmp_path / "part"))
    with Stage("refengine") as made:
        yield made


def _lines(folder: Path, pid: int, module: str) -> set[int]:
    """What one process has run of a module."""
    found: set[int] = set()
    for part in folder.glob(f"part.*.pid{pid}.*"):
        data = CoverageData(str(part))
        data.read()
        for file in data.measured_files():
            if file.endswith(module):
                found.update(data.lines(file) or ())
    return found


def test_a_role_that_is_killed_at_a_point_has_saved_what_it_ran(
    stage: Stage, tmp_path: Path
) -> None:
    opened = [Make(), Attach(), Ready(timeout=10.0), Wait(within=15.0)]
    killed = [Fault("kill", "writer", Point("send", line=3, nth=1)), Send([Message(repeat=2)])]
    told = [Receive(9, timeout=5.0), Wait(within=9.0)]
    shape = QueueShape(readers=1)
    play = stage.play(Scenario("Q6/x", ["Q6"], [*opened, *killed, *told], shape=shape))
    [death] = [each for each in play.history.of("exit") if each.number("signal", 0) == 9]
    ran = _lines(tmp_path, death.number("pid"), "killpoint/systems/queue/driver.py")
    sends = (_ROOT / "harness/killpoint/systems/queue/driver.py").read_text().splitlines()
    begins = 1 + next(n for n, line in enumerate(sends) if "def _send(" in line)
    assert ran & set(range(begins + 1, begins + 4)), "the send that came before the death"


def test_without_coverage_none_is_imported() -> None:
    saves = (
        "import sys, killpoint.runner.environment.coverage_hooks as s; s.save_coverage();"
        "print(*sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", saves],
        env={"PYTHONPATH": str(_ROOT / "harness")},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert "coverage" not in ran.stdout.split()
