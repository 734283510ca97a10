"""Strangers at a server: processes without a key that come to every TCP port but the API's.

Their attacks are those of :mod:`killpoint.runner.network.port_attacker`, as at any other system;
here they are started beside a server, whose play has no zygote. ``python -m`` of this module runs
one of them: its orders come as its standard input, and it leaves once ``NAME.stop`` lies in the
play's folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from killpoint.extras import installed, lacking
from killpoint.history.log import Log
from killpoint.runner.network.port_attacker import AttackOrders, run
from killpoint.runner.observe import exposure_probe
from killpoint.runner.processes.entry import enter_play
from killpoint.runner.processes.priority import ahead, to_thread_ahead
from killpoint.scenario.steps import Attack

_READY_WITHIN = 60.0
"""Seconds to reach the first port, and half of them for each further one: an interpreter is
started."""
_LEAVES_WITHIN = 20.0
_LOOKS = 0.05
_PR_SET_PDEATHSIG = 1
_SPEAKS_STORE = b"libtorch"
"""Library whose stores let any peer in: a stranger brings it where the server has it."""


class Known(msgspec.Struct, frozen=True):
    """Facts about the server that a stranger is given."""

    api: int
    """Port of the API, which is open to all and left out."""
    words: list[str]
    """Texts that show, where they are seen, that data is a client's or meant for one."""


class Strangers:
    """Strangers of one play."""

    def __init__(self, folder: Path, log: Log, seed: int) -> None:
        """Begin without a stranger."""
        self._folder, self._log, self._seed = folder, log, seed
        self._sent: dict[str, subprocess.Popen[bytes]] = {}

    async def send(self, step: Attack, pids: list[int], launcher: int, known: Known) -> str:
        """Send a stranger to every TCP port of the tree but the API's; wait until it was at each.

        Returns:
            The reason if it was not at each; empty if it was.
        """
        heard = await to_thread_ahead(exposure_probe.listeners_of, pids)
        found = [each for each in heard if each.port != known.api]
        owners = sorted({each.owner for each in found})
        asked = {"target": step.role, "how": step.how, "ports": len(found), "owners": owners}
        self._log.write("intrude", **asked)
        lurks = step.how == "lurk"
        if not found and not lurks:
            return ""  # shut out: there is no port to come to
        order = AttackOrders(
            step.how,
            [] if lurks else [(each.address, each.port) for each in found],
            self._seed,
            0,
            launcher if lurks else 0,
            [known.api],
            known.words,
        )
        name = f"stranger-{len(self._sent) + 1}"
        with_store = await to_thread_ahead(_has_store, {each.pid for each in found})
        if with_store and not installed("torch"):  # who cannot ask a store must not call it shut
            return f"a port may be torch's store: {lacking('torch', 'reference')}"
        process = _started(name, self._folder, with_store=with_store)
        self._sent[name] = process
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended: that is seen below
            process.stdin.write(msgspec.json.encode(order))
            process.stdin.close()
        end = time.monotonic() + _READY_WITHIN * (1 + len(found) / 2)
        while not self._stands(name):
            if process.poll() is not None or time.monotonic() > end:
                return f"{name} was not at every port of the server"
            await asyncio.sleep(_LOOKS)
        return ""

    async def recall(self) -> None:
        """Have every stranger leave; kill one that does not."""
        for name in self._sent:
            (self._folder / f"{name}.stop").touch()
        end = time.monotonic() + _LEAVES_WITHIN
        while time.monotonic() < end and any(each.poll() is None for each in self._sent.values()):
            await asyncio.sleep(_LOOKS)
        self.close()

    def close(self) -> None:
        """Kill the strangers that are still there."""
        for process in self._sent.values():
            process.kill()
            process.wait()
        self._sent.clear()

    def _stands(self, name: str) -> bool:
        log = self._folder / f"{name}.jsonl"
        return log.exists() and b'"stranger-stands"' in log.read_bytes()


def _started(name: str, folder: Path, *, with_store: bool) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", __name__, name, str(folder), *(["torch"] * with_store)]
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        words, env=os.environ | path, stdin=subprocess.PIPE, start_new_session=True
    )


def _has_store(pids: set[int]) -> bool:
    """Return whether one of these processes has the library loaded."""
    for pid in pids:
        with contextlib.suppress(OSError):
            if _SPEAKS_STORE in Path(f"/proc/{pid}/maps").read_bytes():
                return True
    return False


def main() -> None:
    """Act as a stranger, for as long as the play needs one."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    name, folder, *libraries = sys.argv[1:]
    data = sys.stdin.buffer.read()
    with ahead(children=True):
        for library in libraries:  # later, as another user, it may read none of our files
            with contextlib.suppress(ImportError):
                importlib.import_module(f"{library}.distributed")
        enter_play(Path(folder), name, temporary="strangers")
        run(name, Path(folder), data)


if __name__ == "__main__":
    main()
