"""Native code that holds the interpreter is ended from outside, and by no handler."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
from pathlib import Path

from killpoint.runner.native import NativeWait, let_go
from killpoint.runner.observe.diagnosis import state

_BUSY = """
import signal, sys
from pathlib import Path
from killpoint.runner.native import NativeWait
handled = []
signal.signal(signal.SIGTERM, lambda *_: handled.append("handled"))
wait = NativeWait(Path(sys.argv[1]))
print("busy", flush=True)
ended = wait.wait(30)
print(ended, *handled, flush=True)
"""


def test_no_handler_runs_before_somebody_ends_the_wait(tmp_path: Path) -> None:
    path = tmp_path / "busy"
    busy = subprocess.Popen(
        [sys.executable, "-c", _BUSY, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert busy.stdout is not None
    with busy.stdout as said:
        assert said.readline() == "busy\n"
        while state(busy.pid) not in ("S", ""):
            pass  # it is on its way into the wait
        busy.send_signal(signal.SIGTERM)
        assert not select.select([said], [], [], 0.2)[0]
        let_go(path)
        assert said.readline() == "True handled\n"
    assert busy.wait(10) == 0


def test_the_wait_has_a_limit_of_its_own(tmp_path: Path) -> None:
    wait = NativeWait(tmp_path / "busy")
    assert not wait.wait(0.01)
    wait.close()
