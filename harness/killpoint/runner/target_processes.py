"""Processes of a play that the target starts, and that are not the harness's to reap."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

from killpoint.history.log import Log
from killpoint.runner.observe import diagnosis
from killpoint.runner.processes.process_watch import ProcessWatch
from killpoint.runner.protocol import Channel, Hello, Release
from killpoint.runner.role_process import RoleProcess

_GONE_WITHIN = 7.0
"""Seconds for which a worker may outlive its pool and still be watched: more than W4's."""


class TargetProcesses:
    """The workers of a play's pool, its coordinator, or the parts of its engine."""

    within = _GONE_WITHIN

    def __init__(self, names: list[str], log: Log) -> None:
        """Start without any process."""
        self.actors = {name: RoleProcess(name, 0, -1, come=False) for name in names}
        self._log = log
        self._watches: dict[int, ProcessWatch] = {}

    def welcome(self, channel: Channel, hello: Hello) -> ProcessWatch | None:
        """Admit a process that has arrived: send its points, and release it.

        A worker of a second pool takes the place of the first one's worker of that rank.
        """
        actor = self.actors[hello.role]
        try:
            watch = ProcessWatch(hello.pid, hello.role)
        except ProcessLookupError:
            return None
        self._watches[hello.pid] = watch
        actor.arrive(hello.pid, watch.fileno(), channel)
        for arm in actor.arms:
            actor.put(arm)
        actor.put(Release())
        return watch

    def appear(self, parts: dict[str, int]) -> list[ProcessWatch]:
        """Record an engine's present processes, by name; return a watch for each new one."""
        watches: list[ProcessWatch] = []
        for name, pid in parts.items():
            actor = self.actors.get(name)
            if actor is None or pid in self._watches:
                continue
            try:
                watch = ProcessWatch(pid, name)
            except ProcessLookupError:
                continue
            self._watches[pid] = watch
            actor.arrive(pid, watch.fileno(), None)
            self._log.write("part-here", target=name, pid=pid)
            watches.append(watch)
        return watches

    def found(self, role: str, pid: int) -> ProcessWatch | None:
        """Record a process that has no channel, as its parent reports it."""
        try:
            watch = ProcessWatch(pid, role)
        except ProcessLookupError:
            return None
        self._watches[pid] = watch
        self.actors[role].arrive(pid, watch.fileno(), None)
        return watch

    def gone(self, watch: ProcessWatch) -> None:
        """Record that a process has ended."""
        status = watch.status()
        how = {} if status is None else ending(status)
        self._log.write("gone", target=watch.role, pid=watch.pid, **how)
        actor = self.actors[watch.role]
        if actor.pid == watch.pid:
            actor.status = status or 0
            actor.pidfd = -1
            actor.at_point = actor.held = actor.stopped = False
            actor.native = None
        del self._watches[watch.pid]
        watch.close()

    def all_gone(self) -> bool:
        """Return whether every process that came has ended, of earlier pools too."""
        return not self._watches

    def dump(self, kind: str, **about: object) -> None:
        """Record stack and state of each live process, seen from outside."""
        for watch in self._watches.values():
            seen = diagnosis.seen(watch.pid)
            self._log.write(kind, target=watch.role, pid=watch.pid, **seen, **about)

    def ask_to_leave(self, until: Callable[[Callable[[], bool]], bool]) -> None:
        """Send SIGTERM to each live process; record whether it obeyed.

        ``until``: waits for a condition as long as is fair, and returns whether it came true.
        """
        asked = list(self._watches.values())
        for watch in asked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(watch.pid, signal.SIGTERM)
        until(self.all_gone)
        for watch in asked:
            obeyed = watch.pid not in self._watches
            self._log.write("asked-to-leave", target=watch.role, pid=watch.pid, obeyed=obeyed)


def ending(status: int) -> dict[str, int]:
    """Return the ``signal`` or the ``code`` by which a process ended."""
    number = status & 0x7F
    return {"signal": number} if number else {"code": status >> 8}
