"""A supervisor, its desk, and replicas and coordinators whose processes are forks."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from refengine.engine.front_end.request_tracker import RequestTracker, Send
from refengine.engine.front_end.thread import FrontEndThread
from refengine.engine.settings import EngineSettings
from refengine.engine.supervisor.supervisor import Supervisor

from ..roles import until
from .relayed import Coordinators, Core, Cores


class House:
    """A supervisor, its desk, and what it has started."""

    def __init__(self, **given: Any) -> None:
        self.settings = EngineSettings(**({"start_timeout": 9.0} | given))
        self.looks = 0
        """How often the supervisor has looked at the clock."""
        self.still: float | None = None
        """The time, while it stands still."""
        self.ahead = 0.0
        """Seconds by which its clock is ahead of the time."""
        self.cores, self.coordinators = Cores(), Coordinators()
        self.supervisor = Supervisor(
            self.settings,
            self.look,
            replica=self.cores.new,
            coordinator=self.coordinators.new,
        )
        self.front_end = FrontEndThread(
            RequestTracker(self.settings), self.supervisor.drop_replica, self.clock
        )

    def look(self) -> float:
        self.looks += 1
        return self.clock()

    def clock(self) -> float:
        return (time.monotonic() if self.still is None else self.still) + self.ahead

    def start(self) -> House:
        self.front_end.start()
        self.supervisor.start(self.front_end)
        return self

    def until(self, condition: Callable[[], Any]) -> Any:
        return until(condition, 5.0)

    def back(self, name: str, life: int = 2) -> Core:
        """Once it serves again."""
        self.until(lambda: self.supervisor.restart_policy.parts[name].life == life)
        self.until(lambda: self.supervisor.restart_policy.parts[name].serves)
        return self.cores[name]

    def state(self, name: str) -> str:
        """As the front end tells it."""
        return self.front_end.ask(lambda tracker, now: tracker.replicas[name].state(now))

    def kill(self, name: str) -> Core:
        core = self.cores[name]
        os.kill(core.pid, signal.SIGKILL)
        return core

    def prefills(self) -> str:
        """Which replica prefills a request: another one than decodes it, if they are linked."""

        def place(tracker: RequestTracker, now: float) -> str:
            actions = tracker.submit("a", (1,), 4, now)
            tracker.cancel("a")
            return next(action.name for action in actions if isinstance(action, Send))

        return self.front_end.ask(place)

    def close(self) -> None:
        self.front_end.close()
        self.supervisor.close()


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
