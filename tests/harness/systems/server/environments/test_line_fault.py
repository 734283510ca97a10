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

from killpoint.systems.server.environments.line_fault import (
    LOADER,
    PLUGIN,
    LineFault,
    gate,
    marks,
    struck,
)

ENGINE = """
import functools
import sys
import killpoint_line
import other

def decorated(function):
    @functools.wraps(function)
    def outer(*arguments):
        return function(*arguments)
    return outer

def free():
    return "free"

class Worker:
    def step(self, number):
        other.run()
        before = number
        print("before", before, flush=True)
        after = number
        print("after", after, flush=True)
        return after

    @staticmethod
    def fixed():
        return "fixed"

    @classmethod
    def named(cls):
        return cls.__name__

    @decorated
    def wrapped(self):
        return "wrapped"

    async def answer(self):
        return 1

    def pieces(self):
        yield 1

def tracer(*_):
    return None

if __name__ == "__main__":
    import engine
    sys.settrace(tracer)
    killpoint_line.register()
    killpoint_line.register()
    worker = engine.Worker()
    for number in range(5):
        if number == 2 and "opens" in sys.argv:
            open(sys.argv[-1], "x").close()
        if number == 2 and "retitled" in sys.argv:
            killpoint_line._title = lambda: "a-core"
        worker.step(number)
    results = worker.fixed(), worker.named(), worker.wrapped(), engine.free()
    print(*results, engine.Worker.step.__name__)
    assert sys.gettrace() is tracer
"""
OTHER = "def run():\n" + "    x = 1\n" * 200
"""A function with lines of the same numbers, in another file."""
RESULTS = "fixed Worker wrapped free step"
"""The last line of a run that nothing struck."""


def _start(folder: Path, fault: LineFault | None, *words: str) -> subprocess.Popen[bytes]:
    (folder / "engine.py").write_text(ENGINE)
    (folder / "other.py").write_text(OTHER)
    given = fault.variables(folder / "marks") if fault else {}
    return subprocess.Popen(
        [sys.executable, str(folder / "engine.py"), "a-worker", *words],
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


def test_it_can_be_told_to_end_there(tmp_path: Path) -> None:
    process = _start(tmp_path, _fault(act="terminate"))
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (-signal.SIGTERM, b"before 0\n")


def test_a_passage_of_a_line_that_returns_is_one(tmp_path: Path) -> None:
    process = _start(tmp_path, _fault(line="return after", nth=2))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert out.decode().splitlines() == ["before 0", "after 0", "before 1", "after 1"]


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


def test_passages_of_a_process_count_from_when_it_has_its_title(tmp_path: Path) -> None:
    process = _start(tmp_path, _fault(title="a-core", nth=2), "retitled")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert out.decode().splitlines()[-1] == "before 3"


KINDS = [
    ("Worker.fixed", 'return "fixed"'),
    ("Worker.named", "return cls"),
    ("Worker.wrapped", 'return "wrapped"'),
    ("free", 'return "free"'),
]


@pytest.mark.parametrize(("function", "line"), KINDS)
def test_methods_of_each_kind_are_reached_and_functions(
    function: str, line: str, tmp_path: Path
) -> None:
    process = _start(tmp_path, _fault(function=function, line=line))
    out, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, err
    assert out.splitlines()[-1] == b"after 4"
    act = struck(tmp_path / "marks")
    assert act is not None
    assert act.function == function


@pytest.mark.parametrize(("function", "line"), [("Worker.step", "after = number"), *KINDS])
def test_what_is_armed_does_as_before_until_then(function: str, line: str, tmp_path: Path) -> None:
    process = _start(tmp_path, _fault(function=function, line=line, nth=99))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert out.decode().splitlines()[-1] == RESULTS
    assert [mark.what for mark in marks(tmp_path / "marks")] == ["armed"]


def test_a_mark_that_is_not_written_to_its_end_is_none(tmp_path: Path) -> None:
    _start(tmp_path, _fault()).communicate(timeout=60)
    whole = (tmp_path / "marks").read_bytes()
    for end in range(len(whole)):
        (tmp_path / "marks").write_bytes(whole[:end])
        assert len(marks(tmp_path / "marks")) == whole[:end].count(b"\n")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"line": "number"}, "3 lines of Worker.step hold 'number'; expected one"),
        ({"line": "no such"}, "0 lines of Worker.step hold"),
        ({"function": "Worker.gone"}, "gone"),
        ({"module": "absent"}, "No module named 'absent'"),
        ({"function": "Worker.answer"}, "is a coroutine or a generator"),
        ({"function": "Worker.pieces"}, "is a coroutine or a generator"),
    ],
)
def test_what_cannot_be_armed_is_noted_and_harms_nothing(
    tmp_path: Path, more: dict[str, str], words: str
) -> None:
    process = _start(tmp_path, _fault(**more))
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out.decode().splitlines()[-1]) == (0, RESULTS)
    (mark,) = marks(tmp_path / "marks")
    assert (mark.what, struck(tmp_path / "marks")) == ("failed", None)
    assert words in mark.error


STEPPED = ["before 0", "after 0", "before 1", "after 1"]
"""What two whole steps say."""


@pytest.mark.parametrize(
    ("along", "line", "said"),
    [
        (0.0, "other.run()", []),
        (0.5, "after = number", ["before 2"]),
        (0.7, 'print("after", after, flush=True)', ["before 2"]),
        (1.0, "return after", ["before 2", "after 2"]),
    ],
)
def test_without_a_named_line_it_is_one_of_those_that_were_passed_until_the_gate_was_open(
    along: float, line: str, said: list[str], tmp_path: Path
) -> None:
    fault = _fault(line="", along=along)
    process = _start(tmp_path, fault, "opens", str(gate(tmp_path / "marks")))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert out.decode().splitlines() == [*STEPPED, *said]
    act = struck(tmp_path / "marks")
    assert act is not None
    assert ENGINE.splitlines()[act.line - 1].strip() == line


def test_until_the_gate_is_open_nothing_is_struck(tmp_path: Path) -> None:
    process = _start(tmp_path, _fault(line=""))
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out.decode().splitlines()[-1]) == (0, RESULTS)
    assert [mark.what for mark in marks(tmp_path / "marks")] == ["armed"]


@pytest.mark.parametrize(("along", "line"), [(0.0, "other.run()"), (1.0, "return after")])
def test_who_had_passed_none_is_struck_at_one_of_all_that_there_are(
    along: float, line: str, tmp_path: Path
) -> None:
    gate(tmp_path / "marks").touch()
    process = _start(tmp_path, _fault(line="", along=along))
    process.communicate(timeout=60)
    act = struck(tmp_path / "marks")
    assert process.returncode == -signal.SIGKILL
    assert act is not None
    assert ENGINE.splitlines()[act.line - 1].strip() == line


LOOP = """
import sys
import killpoint_line

class Clock:
    now = 0.0

    @staticmethod
    def monotonic():
        return Clock.now

class Worker:
    def serve(self, numbers):
        for name in ("a", "b", "c"):
            ready = name
        for number in numbers:
            taken = number
            Clock.now += 1.0
        return taken

    def leave(self, never):
        if never:
            first = 1
            second = 2
            third = 3
        left = 4
        return left

def numbers(opens_at, gate):
    for number in range(9):
        if number == opens_at:
            open(gate, "x").close()
        yield number

if __name__ == "__main__":
    import loop
    killpoint_line.time = loop.Clock
    killpoint_line.register()
    loop.Worker().leave(False)
    loop.Worker().serve(loop.numbers(int(sys.argv[1]), sys.argv[2]))
"""


def _struck_in_loop(folder: Path, fault: LineFault, opens_at: int = 6) -> str:
    (folder / "loop.py").write_text(LOOP)
    given = fault.variables(folder / "marks") | {"PYTHONPATH": f"{folder}:{PLUGIN}"}
    words = [sys.executable, str(folder / "loop.py"), str(opens_at), str(gate(folder / "marks"))]
    subprocess.run(words, env=os.environ | given, check=False, timeout=60, capture_output=True)
    act = struck(folder / "marks")
    return LOOP.splitlines()[act.line - 1].strip() if act is not None else "none"


@pytest.mark.parametrize("opens_at", [6, 1], ids=["long before", "right before"])
def test_what_was_passed_before_the_loop_that_never_ends_is_no_line_of_it(
    opens_at: int, tmp_path: Path
) -> None:
    fault = _fault(module="loop", function="Worker.serve", line="", along=0.0)
    assert _struck_in_loop(tmp_path, fault, opens_at) == "for number in numbers:"


def test_who_comes_to_a_function_first_is_struck_though_the_line_is_behind_a_branch(
    tmp_path: Path,
) -> None:
    gate(tmp_path / "marks").touch()
    fault = _fault(module="loop", function="Worker.leave", line="", along=0.4)
    assert _struck_in_loop(tmp_path, fault) == "left = 4"


def test_of_two_that_come_to_their_lines_one_is_struck(tmp_path: Path) -> None:
    gate(tmp_path / "marks").touch()
    both = [_start(tmp_path, _fault(line="")) for _ in range(2)]
    for each in both:
        each.communicate(timeout=60)
    assert sorted(each.returncode for each in both) == [-signal.SIGKILL, 0]


def test_the_gate_is_for_those_of_the_title_alone(tmp_path: Path) -> None:
    gate(tmp_path / "marks").touch()
    process = _start(tmp_path, _fault(line="", title="VLLM::EngineCore"))
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert struck(tmp_path / "marks") is None


def test_without_an_order_it_does_nothing(tmp_path: Path) -> None:
    process = _start(tmp_path, None)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert marks(tmp_path / "marks") == []


def test_an_engine_finds_it_on_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PLUGIN))
    (found,) = entry_points(group="vllm.general_plugins", name="killpoint_line")
    assert found.value == "killpoint_line:register"


@pytest.mark.parametrize(
    ("act", "state"),
    [
        ("spin", "R"),
        ("sleep", "S"),
        ("hold-gil", "S"),
        ("lost-lock", "S"),
        ("file-lock", "S"),
        ("full-pipe", "S"),
    ],
)
def test_it_hangs_there_and_does_not_end(act: str, state: str, tmp_path: Path) -> None:
    process = _start(tmp_path, _fault(act=act, nth=2))
    try:
        _comes_to(process.pid, tmp_path / "marks", state)
        assert process.stdout
        assert os.read(process.stdout.fileno(), 100) == b"before 0\nafter 0\nbefore 1\n"
        assert process.poll() is None
        act_done = struck(tmp_path / "marks")
        assert act_done is not None
        assert (act_done.what, act_done.pid) == (act, process.pid)
    finally:
        for child in _children(process.pid):
            os.kill(child, signal.SIGKILL)
        process.kill()
        process.communicate()


def _comes_to(pid: int, file: Path, state: str) -> None:
    """Until it was struck, and its main thread is in that state five times running."""
    end, seen = time.monotonic() + 60, 0
    while seen < 5:
        assert time.monotonic() < end, f"waited 60 s for state {state}"
        now = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        seen = seen + 1 if struck(file) is not None and now == state else 0
        select.select([], [], [], 0.02)


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(each) for task in tasks for each in (task / "children").read_text().split()]


def test_one_call_is_not_made_once_the_gate_is_open(tmp_path: Path) -> None:
    fault = _fault(line="", act="swallow")
    process = _start(tmp_path, fault, "opens", str(gate(tmp_path / "marks")))
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    said = out.decode().splitlines()
    assert "before 1" in said
    assert "before 2" not in said
    assert said[-1] == RESULTS
    act = struck(tmp_path / "marks")
    assert act is not None
    assert (act.what, act.function) == ("swallow", "Worker.step")


def test_a_named_line_waits_for_the_gate_where_it_is_said_so(tmp_path: Path) -> None:
    process = _start(tmp_path, _fault(gated=True), "opens", str(gate(tmp_path / "marks")))
    out, _ = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert out.decode().splitlines()[-1] == "before 2"


def test_a_server_that_loads_no_plugins_arms_it_as_it_begins(tmp_path: Path) -> None:
    (tmp_path / "engine.py").write_text("def step():\n    x = 1\n    return x\n")
    fault = LineFault(module="engine", function="step", line="return x")
    path = {"PYTHONPATH": os.pathsep.join(map(str, (tmp_path, LOADER, PLUGIN)))}
    command = [sys.executable, "-c", "import engine; engine.step()"]
    for given, status in ((fault.variables(tmp_path / "marks"), -signal.SIGKILL), ({}, 0)):
        env = os.environ | path | given
        assert subprocess.run(command, env=env, timeout=60, check=False).returncode == status
