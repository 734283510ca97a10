"""How a process ended is told, reaped or not, by whoever is not its parent."""

from __future__ import annotations

import select
import subprocess
import sys

import pytest

from killpoint.runner.processes.process_watch import ProcessWatch


@pytest.mark.parametrize("reaped", [False, True])
@pytest.mark.parametrize(("act", "status"), [("sys.exit(3)", 3 << 8), ("os.abort()", 6)])
def test_an_end_is_told(act: str, status: int, reaped: bool) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", f"import os, sys; input(); {act}"], stdin=subprocess.PIPE
    )
    watch = ProcessWatch(child.pid, "worker-0")
    try:
        assert watch.status() is None
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.close()
        assert select.select([watch], [], [], 20)[0]
        if reaped:
            child.wait()
        told = watch.status()
        # Older kernels forget how a process ended once it is reaped.
        assert told is None or told & 0xFF7F == status
        assert reaped or told is not None
    finally:
        child.wait()
        watch.close()


def test_a_process_that_is_gone_is_nobodys_to_watch() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait(30)
    with pytest.raises(ProcessLookupError):
        ProcessWatch(done.pid, "worker-0")
