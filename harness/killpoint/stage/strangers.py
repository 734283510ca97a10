"""The director's view of the strangers in a play: sent, standing, recalled, gone."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import msgspec

from killpoint.scenario import Broadcast, PipeSend, Scenario, Send, SendTo
from killpoint.stage.channel import Exited, ForkRole
from killpoint.stage.intruder import STRANGER, Errand
from killpoint.stage.zygote_client import Zygote

_FEW = 64
"""Messages that a stranger at least knows by their patterns."""


class Strangers:
    """Processes without a key that connect to the ports of a play's roles."""

    def __init__(self, zygote: Zygote, scenario: Scenario, folder: Path) -> None:
        """None is there yet."""
        self._zygote = zygote
        self._scenario = scenario
        self._folder = folder
        self._pids: dict[int, str] = {}

    def send(self, how: str, addresses: Sequence[tuple[str, int]], pid: int = 0) -> str:
        """Send one to these addresses, or to whatever the tree of a process opens; its name."""
        name = f"stranger-{len(list(self._folder.glob('stranger-*.jsonl'))) + 1}"
        errand = Errand(how, list(addresses), self._scenario.seed, _messages(self._scenario), pid)
        order = ForkRole(
            name, str(self._folder), start=STRANGER, errand=msgspec.json.encode(errand)
        )
        self._pids[self._zygote.fork(order)] = name
        return name

    def stands(self, name: str) -> bool:
        """Whether it has tried each address once."""
        log = self._folder / f"{name}.jsonl"
        return log.exists() and b'"stranger-stands"' in log.read_bytes()

    def recall(self) -> None:
        """Have every one leave."""
        for name in self._pids.values():
            (self._folder / f"{name}.stop").touch()

    def ended(self, packet: Exited) -> None:
        """Take note of an end, if it was one of them."""
        self._pids.pop(packet.pid, None)

    def gone(self) -> bool:
        """Whether all have left."""
        return not self._pids

    def close(self) -> None:
        """End those that are still there."""
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _messages(scenario: Scenario) -> int:
    """A number that no message of the scenario has."""
    sends = [step for step in scenario.steps if isinstance(step, (Send, SendTo, Broadcast))]
    tensors = [
        each for step in scenario.steps if isinstance(step, PipeSend) for each in step.tensors
    ]
    whole = [*(each for step in sends for each in step.messages), *tensors]
    return _FEW + sum(each.repeat for each in whole)
