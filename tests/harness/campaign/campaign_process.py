"""A campaign as a process of its own, watched by its journal; and whatever is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from killpoint.campaign.journal import Begun, Ended, Entry, GivenBack, read

_TOKEN = "CAMPAIGN_UNDER_TEST"


def wait_for(what: str, seen: Callable[[], object], within: float = 60.0) -> None:
    """Until it is seen; says on expiry what was not."""
    end = time.monotonic() + within
    while not seen():
        assert time.monotonic() < end, f"not within {within:.0f} s: {what}"
        threading.Event().wait(0.02)


class CampaignProcess:
    """``killpoint campaign`` in a folder; when it is left, nothing of it runs on."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self._begun: list[subprocess.Popen[str]] = []
        self.token = uuid.uuid4().hex
        path = os.pathsep.join(each for each in sys.path if each)
        self.environment = (
            os.environ | {"PYTHONPATH": path, _TOKEN: self.token, "COLUMNS": "200"} | environment
        )

    def __enter__(self) -> CampaignProcess:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._begun:
            if process.poll() is None:
                self.interrupt(process)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """In a session of its own, as a shell's foreground job."""
        process = subprocess.Popen(
            [sys.executable, "-m", "killpoint.cli", "campaign", *arguments],
            env=self.environment,
            cwd=self.folder.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._begun.append(process)
        return process

    def interrupt(
        self, process: subprocess.Popen[str], by: int = signal.SIGINT
    ) -> tuple[int, str, str]:
        """As a terminal does; status, output and errors."""
        os.killpg(process.pid, by)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def entries(self) -> list[Entry]:
        journal = self.folder / "journal.jsonl"
        return read(journal) if journal.exists() else []

    def ended(self) -> list[str]:
        """Keys of the items that were played to their end, in that order."""
        return [entry.key for entry in self.entries() if isinstance(entry, Ended)]

    def unaccounted(self) -> Counter[str]:
        """Begun more or less often than ended and given back together."""
        count: Counter[str] = Counter()
        for entry in self.entries():
            if isinstance(entry, Begun):
                count[entry.item.key] += 1
            elif isinstance(entry, Ended | GivenBack):
                count[entry.key] -= 1
        return Counter({key: number for key, number in count.items() if number})

    def processes(self) -> list[str]:
        """What runs on its behalf, whoever started it."""
        found: list[str] = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                mine = self.token.encode() in (place / "environ").read_bytes()
                said = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if mine and said:
                found.append(f"{place.name} {said}")
        return found
