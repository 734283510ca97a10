"""A process that takes no orders moves its clock when a signal tells it to, and only then."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from killpoint.runner.environment import remote_clock

_LISTENS = """
import sys, time
from pathlib import Path
from killpoint.runner.environment import remote_clock
remote_clock.listen(Path(sys.argv[1]), "coordinator")
print("ready", flush=True)
sys.stdin.readline()
print(time.time(), flush=True)
"""


def test_a_process_that_listens_goes_on_from_another_hour(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _LISTENS, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        assert remote_clock.move(tmp_path, "coordinator", child.pid, -7200.0)
        before = Path(tmp_path, "coordinator.jump").stat().st_mtime
        said, _ = child.communicate("now\n", timeout=20)
        assert float(said) < before - 7000
    assert '"kind":"jumped"' in (tmp_path / "coordinator.jsonl").read_text()


def test_one_that_does_not_listen_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        assert not remote_clock.move(tmp_path, "coordinator", child.pid, 1.0)
        assert child.poll() is None
        child.send_signal(signal.SIGKILL)
        pid = child.pid
    assert not remote_clock.move(tmp_path, "coordinator", pid, 1.0)
    assert list(tmp_path.iterdir()) == []
