"""Faults at source lines: the process is struck before that very line, and says so beforehand."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from killpoint.systems.server.environments.line_fault import PLUGIN, LineFault, marks, struck

ENGINE = """
import sys
import killpoint_line

class Worker:
    def step(self, number):
        before = number
        print("before", before, flush=True)
        after = number
        print("after", after, flush=True)
        return after

    @staticmethod
    def fixed():
        return 1

    async def answer(self):
        return 1

if __name__ == "__main__":
    import engine
    killpoint_line.register()
    killpoint_line.register()
    for number in range(5):
        engine.Worker().step(number)
    engine.Worker.fixed()
"""


def _start(folder: Path, fault: LineFault | None) -> subprocess.Popen[bytes]:
    (folder / "engine.py").write_text(ENGINE)
    given = fault.variables(folder / "marks") if fault else {}
    return subprocess.Popen(
        [sys.executable, str(folder / "engine.py"), "a-worker"],
        env=os.environ | given | {"PYTHONPATH": f"{folder}:{PLUGIN}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _fault(**more: Any) -> LineFault:
    given = {"module": "engine", "function": "Worker.step", "line": "after = number"}
    return LineFault(**given | more)


def test_it_dies_before_that_line_and_has_noted_it(tmp_path: Path) -> None:
    process = _start(tmp_path, _fault(nth=3))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert out.decode().splitlines() == ["before 0", "after 0", "before 1", "after 1", "before 2"]
    armed, act = marks(tmp_path / "marks")
    assert (armed.what, act.what, act.pid) == ("armed", "kill", process.pid)
    assert ENGINE.splitlines()[act.line - 1].strip() == "after = number"
    assert act.function == "Worker.step"
    assert struck(tmp_path / "marks") == act


def test_it_can_be_stopped_there(tmp_path: Path) -> None:
    process = _start(tmp_path, _fault(act="stop"))
    status = Path(f"/proc/{process.pid}/stat")
    end = time.monotonic() + 60
    while status.read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < end, "waited 60 s for the process to be stopped"
        select.select([], [], [], 0.02)
    assert process.stdout
    assert os.read(process.stdout.fileno(), 100) == b"before 0\n"
    process.send_signal(signal.SIGCONT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out.splitlines()[0] == b"after 0"


def test_a_process_of_another_title_is_left_alone(tmp_path: Path) -> None:
    process = _start(tmp_path, _fault(title="VLLM::EngineCore"))
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert [mark.what for mark in marks(tmp_path / "marks")] == ["armed"]
    assert struck(tmp_path / "marks") is None


def test_a_title_is_searched_for(tmp_path: Path) -> None:
    process = _start(tmp_path, _fault(title=r"a-work\w+"))
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL


def test_a_static_method_is_reached_too(tmp_path: Path) -> None:
    process = _start(tmp_path, _fault(function="Worker.fixed", line="return 1"))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert out.splitlines()[-1] == b"after 4"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"line": "number"}, "3 lines of Worker.step hold 'number'; expected one"),
        ({"line": "no such"}, "0 lines of Worker.step hold"),
        ({"function": "Worker.gone"}, "gone"),
        ({"module": "absent"}, "No module named 'absent'"),
        ({"function": "Worker.answer"}, "is a coroutine or a generator"),
    ],
)
def test_what_cannot_be_armed_is_noted_and_harms_nothing(
    tmp_path: Path, more: dict[str, str], words: str
) -> None:
    process = _start(tmp_path, _fault(**more))
    process.communicate(timeout=60)
    assert process.returncode == 0
    (mark,) = marks(tmp_path / "marks")
    assert mark.what == "failed"
    assert words in mark.error


def test_without_an_order_it_does_nothing(tmp_path: Path) -> None:
    process = _start(tmp_path, None)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert marks(tmp_path / "marks") == []


def test_an_engine_finds_it_on_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PLUGIN))
    (found,) = entry_points(group="vllm.general_plugins", name="killpoint_line")
    assert found.value == "killpoint_line:register"
