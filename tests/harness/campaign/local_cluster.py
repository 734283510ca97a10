"""A Ray cluster of this machine alone, of its own folder and ports, ended with all it started."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

from campaign_process import wait_for

_TOKEN = "CLUSTER_UNDER_TEST"


class LocalCluster:
    """One that is up."""

    def __init__(self, folder: Path, address: str, head: int) -> None:
        self.folder, self.address, self.head = folder, address, head

    def processes(self) -> Iterator[tuple[int, str]]:
        """Everything that the cluster has started, players and their roles among it.

        Known by the environment, or, where Ray has written a worker's title over it, by parentage.
        """
        below = _below(self.head)
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                said = _said(int(place.name))
                mine = f"{_TOKEN}={self.folder}".encode() in (place / "environ").read_bytes()
                if said and (mine or int(place.name) in below):
                    yield int(place.name), said

    def playing(self) -> list[int]:
        """Pids of Ray's workers that play an item now; Ray names a worker by its task."""
        return [pid for pid, said in self.processes() if re.match(r"ray::.*[@/]", said)]

    def players(self) -> list[int]:
        return [pid for pid, said in self.processes() if "killpoint.campaign.worker_main" in said]


def _said(pid: int) -> str:
    """Its command line."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def _below(pid: int) -> set[int]:
    """Pids of all processes below this one."""
    found, todo = set[int](), [pid]
    while todo:
        for task in Path(f"/proc/{todo.pop()}/task").glob("*"):
            with contextlib.suppress(OSError):
                kids = {int(kid) for kid in (task / "children").read_text().split()}
                todo += kids - found
                found |= kids
    return found


def _port() -> int:
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


@contextlib.contextmanager
def local_cluster(cores: int = 2) -> Generator[LocalCluster]:
    """A head node on the loopback."""
    folder = Path(tempfile.mkdtemp(prefix="kpr-", dir="/tmp"))  # its sockets' paths must be short
    address = f"127.0.0.1:{_port()}"
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    command += ["--node-ip-address=127.0.0.1", f"--port={address.split(':')[1]}"]
    command += [f"--num-cpus={cores}", "--num-gpus=0", f"--temp-dir={folder}"]
    command += ["--include-dashboard=false", "--disable-usage-stats"]
    command += ["--object-store-memory=100000000"]
    path = os.pathsep.join(each for each in sys.path if each)
    environment = {"PYTHONPATH": path, _TOKEN: str(folder), "PYTHONUNBUFFERED": "1"}
    said = folder / "said"
    with said.open("w") as out:
        head = subprocess.Popen(
            command,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    cluster = LocalCluster(folder, address, head.pid)

    def started() -> bool:
        assert head.poll() is None, said.read_text()
        return "Ray runtime started" in said.read_text()

    try:
        wait_for("the cluster's start", started, within=90.0)
        yield cluster
    finally:
        _end(head, cluster)
        shutil.rmtree(folder, ignore_errors=True)


def _end(head: subprocess.Popen[bytes], cluster: LocalCluster) -> None:
    """The head ends its node; who is left of those that were there is ended one by one."""
    there = dict(cluster.processes())
    head.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        head.wait(30)
    there |= dict(cluster.processes())
    for pid, said in there.items():
        with contextlib.suppress(OSError):
            if _said(pid) == said:
                os.kill(pid, signal.SIGKILL)
    head.wait(10)
