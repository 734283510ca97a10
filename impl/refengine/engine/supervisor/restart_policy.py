"""Which parts of the engine are to be started when: at first, and again after they ended (E3)."""

from dataclasses import dataclass

_GIVE_UP = 5  # starts in a row that come to nothing
_PAUSE = 0.25  # seconds before the second of them; each later one waits twice as long


@dataclass
class Part:
    """One of them, through all its lives."""

    name: str
    life: int = 0
    """Which process it is, from 1 on."""
    serves: bool = False
    due: float | None = 0.0
    """When it is to be started; None: it has been, or it is given up."""
    late: float | None = None
    """When it must serve."""
    failures: int = 0
    """Starts in a row that have come to nothing."""
    restarts: int = 0


class RestartPolicy:
    """Sans I/O, in monotonic seconds."""

    def __init__(self, names: list[str], *, restart: bool, start_timeout: float) -> None:
        self.parts = {name: Part(name) for name in names}
        self._restart, self._start_timeout = restart, start_timeout

    def due(self, now: float) -> list[str]:
        """Who is to be started now; say `started` of each."""
        return [p.name for p in self.parts.values() if p.due is not None and p.due <= now]

    def late(self, now: float) -> list[str]:
        """Who has not come to serve in time; end it, and say `ended`."""
        return [p.name for p in self.parts.values() if p.late is not None and p.late <= now]

    def next(self) -> float:
        """When to ask again at the latest."""
        times = [t for p in self.parts.values() for t in (p.due, p.late) if t is not None]
        return min(times, default=float("inf"))

    def started(self, name: str, now: float) -> int:
        """A process has been started, or is about to be; its life."""
        part = self.parts[name]
        part.restarts += part.life > 0
        part.life += 1
        part.due, part.late, part.serves = None, now + self._start_timeout, False
        return part.life

    def serves(self, name: str) -> None:
        """It is ready."""
        part = self.parts[name]
        part.serves, part.late, part.failures = True, None, 0

    def ended(self, name: str, now: float) -> bool:
        """It is gone; whether it will be started again."""
        part = self.parts[name]
        part.failures += not part.serves
        part.serves, part.late = False, None
        again = self._restart and part.failures < _GIVE_UP
        pause = _PAUSE * 2 ** (part.failures - 1) if part.failures else 0.0
        part.due = now + pause if again else None
        return again

    def has_any(self, names: list[str]) -> bool:
        """Whether one of these serves, or is to come."""
        parts = [self.parts[name] for name in names]
        return any(part.serves or part.due is not None or part.late is not None for part in parts)

    def serving(self) -> list[str]:
        """Who serves."""
        return [part.name for part in self.parts.values() if part.serves]
