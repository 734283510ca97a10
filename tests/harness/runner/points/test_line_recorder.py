"""The line recorder: what a role's threads, forks and killed processes have run is in the map."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from synthetic import scene

from killpoint.points.target_lines import LineMap, outline
from killpoint.runner.stage import Stage
from killpoint.scenario import Count, Fault, Point

_TARGET = """\
import os, threading

def called(times):
    total = 0
    for each in range(times):
        if each == 100:
            total += 1
        else:
            total += 2
    return total

def raises():
    try:
        raise KeyError("mine")
    finally:
        os.environ["LEFT"] = "1"

def in_thread():
    thread = threading.Thread(target=called, args=(3,))
    thread.start()
    thread.join()

def dies():
    called(1)
    os.kill(os.getpid(), 9)
    called(101)

def in_fork():
    pid = os.fork()
    if pid == 0:
        dies()
    return os.waitpid(pid, 0)[1]

def at_exit():
    called(1)

class Last:
    def __del__(self):
        called(1)
"""
_BEFORE = """\
import sys
from pathlib import Path
from killpoint.runner.points import line_recorder
if sys.argv[3] == "settrace":
    line_recorder._MONITORING = None
sys.path.insert(0, sys.argv[2])
import target
line_recorder.begin(Path(sys.argv[1]))
"""
_WAYS = ["settrace", *(["monitoring"] if sys.version_info >= (3, 12) else [])]


class _Folder:
    """A target of one file, and the play that records it."""

    def __init__(self, folder: Path, way: str) -> None:
        self.way = way
        self.target, self.play = folder / "target", folder / "play"
        self.target.mkdir()
        self.play.mkdir()
        self.file = self.target / "target.py"
        self.file.write_text(_TARGET)
        self.lines = LineMap({"target.py": str(self.file)})
        self.lines.lay(self.play)

    def run(self, script: str, before: str = _BEFORE) -> subprocess.CompletedProcess[str]:
        path = ":".join(each for each in sys.path if each)
        return subprocess.run(
            [sys.executable, "-c", before + script, str(self.play), str(self.target), self.way],
            capture_output=True,
            text=True,
            timeout=60,
            env={"PYTHONPATH": path},
            check=False,
        )

    def reached(self, name: str) -> tuple[int, int]:
        """How many lines of a function were reached, and how many it has."""
        known = outline(str(self.file))
        assert known is not None
        (function,) = [each for each in known.functions if each.name == name]
        ran = self.lines.read(self.play).get("target.py", [])
        return len({*ran} & {*function.lines}), len(function.lines)


@pytest.fixture(params=_WAYS)
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> _Folder:
    return _Folder(tmp_path, request.param)


def test_every_line_that_is_run_is_recorded_and_no_other(folder: _Folder) -> None:
    done = folder.run("target.called(3)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert folder.reached("called") == (5, 6)
    folder.run("target.called(101)")
    assert folder.reached("called") == (6, 6)
    assert folder.reached("raises")[0] == 0


def test_threads_are_recorded(folder: _Folder) -> None:
    folder.run("target.in_thread()")
    assert folder.reached("in_thread") == (3, 3)
    assert folder.reached("called")[0] == 5


def test_a_killed_process_has_lost_nothing(folder: _Folder) -> None:
    done = folder.run("target.dies()")
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    assert folder.reached("dies") == (2, 3)


def test_a_fork_goes_on_with_its_parents_map(folder: _Folder) -> None:
    done = folder.run("print(target.in_fork())")
    assert done.stdout == f"{int(signal.SIGKILL)}\n"
    assert folder.reached("in_fork") == (4, 4)
    assert folder.reached("dies") == (2, 3)


def test_exceptions_and_ends_are_the_targets_own(folder: _Folder) -> None:
    script = (
        "import atexit\natexit.register(target.at_exit)\nlast = target.Last()\n"
        "try:\n    target.raises()\nexcept KeyError as e:\n    print(e)\nsys.exit(7)\n"
    )
    done = folder.run(script)
    assert (done.returncode, done.stdout, done.stderr) == (7, "'mine'\n", "")
    assert folder.reached("raises") == (3, 3)
    assert folder.reached("at_exit") == (1, 1)


def test_a_call_whose_lines_were_all_seen_is_traced_no_more(tmp_path: Path) -> None:
    folder = _Folder(tmp_path, "settrace")
    seen = (
        "target.called(101)\nimport threading\ncalled = threading.gettrace()\n"
        "class Frame: f_code = target.called.__code__\n"
        "print(called(Frame, 'call', None))\n"
        "class Frame: f_code = target.dies.__code__\n"
        "print(called(Frame, 'call', None) is None)\n"
    )
    assert folder.run(seen).stdout == "None\nFalse\n"


def test_nothing_is_recorded_where_the_play_does_not_ask_for_it(folder: _Folder) -> None:
    for file in folder.play.iterdir():
        file.unlink()
    done = folder.run("target.called(3)\nprint(sys.gettrace())")
    assert (done.stdout, done.stderr) == ("None\n", "")


def test_nothing_is_recorded_while_another_traces(folder: _Folder) -> None:
    first = "import sys\nsys.settrace(lambda *_: None)\n"
    done = folder.run("target.called(3)", before=first + _BEFORE)
    assert (done.returncode, done.stderr) == (0, "")
    assert folder.reached("called")[0] == 0


def test_nothing_is_recorded_while_coverage_is_measured(folder: _Folder) -> None:
    pytest.importorskip("coverage")
    core = "sysmon" if folder.way == "monitoring" else "pytrace"
    first = (
        f"import os\nos.environ['COVERAGE_CORE'] = '{core}'\n"
        "import coverage\nmeasured = coverage.Coverage(data_file=None, config_file=False)\n"
        "measured.start()\n"
    )
    done = folder.run("target.called(3)\nmeasured.stop()", before=first + _BEFORE)
    assert (done.returncode, done.stderr) == (0, "")
    assert folder.reached("called")[0] == 0


def test_the_map_costs_no_descriptor(folder: _Folder) -> None:
    count = "import os\nprint(len(os.listdir('/proc/self/fd')))\n"
    done = folder.run(
        count, before=_BEFORE.replace("line_recorder.begin", f"{count}\nline_recorder.begin")
    )
    before, after = done.stdout.split()
    assert before == after


def test_a_play_whose_roles_are_traced_for_a_point_records_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage.__new__(Stage)
    played: list[bool] = []
    monkeypatch.setattr(stage, "_abandoned", False, raising=False)
    monkeypatch.setattr(stage, "_alone", None, raising=False)
    monkeypatch.setattr(stage, "_lines", LineMap({}), raising=False)
    monkeypatch.setattr(stage, "play", lambda _: played.append(False))
    monkeypatch.setattr(stage, "_play", lambda _, lines: played.append(lines is not None))
    placed = Fault("kill", "writer", Point("send", line=3))
    counted = Count("writer", Point("send"))
    for step in (placed, counted, Fault("interrupt", "writer"), Fault("kill", "writer")):
        stage.play_recorded(scene(step))
    assert played == [False, False, False, True]
