"""The runner's view of the strangers in a play: sent, standing, recalled, gone."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from killpoint.checkers.exposure import SPARE
from killpoint.history.log import Log
from killpoint.runner.hang_detection import Stalled
from killpoint.runner.network import flood
from killpoint.runner.network.port_attacker import STRANGER, AttackOrders
from killpoint.runner.observe import exposure_probe, memory_usage
from killpoint.runner.processes.zygote_client import Zygote
from killpoint.runner.protocol import Exited, ForkRole
from killpoint.scenario import Attack, Broadcast, PipeSend, Scenario, Send, SendTo

_READY_WITHIN = 30.0
"""Seconds for each port: a crowd at a listener that accepts no more connections waits for a
while."""
_RECOVERS_WITHIN = 6.0
"""Seconds after a flood until descriptors must be free again: a target that hangs up on strangers
needs some time to recognise them."""
_FEW = 64
"""Messages that a stranger at least recognises by their patterns."""


class Until(Protocol):
    """The runner's wait."""

    def __call__(self, done: Callable[[], bool], within: float, complaint: str | None) -> bool:
        """Serve all roles until ``done``; on expiry raise, or return False without a complaint."""
        ...


class Attackers:
    """Processes without a key that connect to the ports of a play's roles."""

    def __init__(self, zygote: Zygote, scenario: Scenario, folder: Path, log: Log) -> None:
        """Start without strangers."""
        self._zygote = zygote
        self._scenario = scenario
        self._folder = folder
        self._log = log
        self._pids: dict[int, str] = {}

    def intrude(self, step: Attack, pid: int, until: Until) -> None:
        """Send one to a role's process tree, and wait until it has been at every port.

        Raises:
            Stalled: it was not in time.
        """
        lurks = step.how == "lurk"
        found = [] if lurks else exposure_probe.listeners(pid)
        ports = [(heard.address, heard.port) for heard in found]
        owners = sorted({heard.owner for heard in found})
        self._log.write("intrude", target=step.role, how=step.how, ports=len(ports), owners=owners)
        before = memory_usage.tree(pid) if step.how == "flood" else None
        logged = memory_usage.logged(self._folder, step.role)
        name = self._send(step.how, ports, pid if lurks else 0)
        within = _READY_WITHIN * max(1, len(ports))
        until(lambda: self._stands(name) or self._ended(name), within, f"{name} did not start")
        if not self._stands(name):
            raise Stalled(f"{name} ended before it had been at every port")
        if before is not None:
            self._weigh_flood(step.role, pid, before, logged, until)

    def _weigh_flood(
        self, role: str, pid: int, before: memory_usage.Tree, logged: int, until: Until
    ) -> None:
        """Log the flood's cost, once descriptors are free again, or are not for too long."""
        most, few = memory_usage.descriptors(pid), flood.NOFILE - SPARE
        until(lambda: memory_usage.descriptors(pid) <= few, _RECOVERS_WITHIN, None)
        facts = {
            "grown": before.grown(pid),
            "most": most,
            "descriptors": memory_usage.descriptors(pid),
            "logged": memory_usage.logged(self._folder, role) - logged,
        }
        self._log.write("flood-cost", target=role, **facts, allowed=flood.NOFILE)

    def _send(self, how: str, addresses: Sequence[tuple[str, int]], pid: int) -> str:
        """Send one to these addresses, or to any that a process tree opens; return its name."""
        name = f"stranger-{len(list(self._folder.glob('stranger-*.jsonl'))) + 1}"
        orders = AttackOrders(
            how, list(addresses), self._scenario.seed, _messages(self._scenario), pid
        )
        order = ForkRole(
            name, str(self._folder), start=STRANGER, request=msgspec.json.encode(orders)
        )
        self._pids[self._zygote.fork(order)] = name
        return name

    def _stands(self, name: str) -> bool:
        """Return whether it has tried each address once."""
        log = self._folder / f"{name}.jsonl"
        return log.exists() and b'"stranger-stands"' in log.read_bytes()

    def _ended(self, name: str) -> bool:
        return name not in self._pids.values()

    def recall(self) -> None:
        """Have all strangers leave."""
        for name in self._pids.values():
            (self._folder / f"{name}.stop").touch()

    def ended(self, packet: Exited) -> None:
        """Record the end of a process, if it was one of them."""
        self._pids.pop(packet.pid, None)

    def gone(self) -> bool:
        """Return whether all have left."""
        return not self._pids

    def close(self) -> None:
        """Kill those that are still there."""
        for pid in self._pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _messages(scenario: Scenario) -> int:
    """Return a number that no message of the scenario has."""
    sends = [step for step in scenario.steps if isinstance(step, (Send, SendTo, Broadcast))]
    tensors = [
        each for step in scenario.steps if isinstance(step, PipeSend) for each in step.tensors
    ]
    whole = [*(each for step in sends for each in step.messages), *tensors]
    return _FEW + sum(each.repeat for each in whole)
