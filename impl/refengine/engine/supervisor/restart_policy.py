"""Policy of starts: when each part is started, and restarted after it ended (SPEC E3)."""

from dataclasses import dataclass

_GIVE_UP = 5  # failed starts in a row
_PAUSE = 0.25  # seconds before the second start; each later one waits twice as long


@dataclass
class Part:
    """One part, through all its processes."""

    name: str
    life: int = 0
    """Number of its current process, counted from 1."""
    serves: bool = False
    due: float | None = 0.0
    """Time of its next start; None once started, or given up."""
    late: float | None = None
    """Deadline for it to serve."""
    failures: int = 0
    """Number of failed starts in a row."""
    restarts: int = 0


class RestartPolicy:
    """Decides starts, restarts and giving up. Sans I/O, in monotonic seconds."""

    def __init__(self, names: list[str], *, restart: bool, start_timeout: float) -> None:
        self.parts = {name: Part(name) for name in names}
        self._restart, self._start_timeout = restart, start_timeout

    def due(self, now: float) -> list[str]:
        """Return the parts to start now; call `started` for each."""
        return [p.name for p in self.parts.values() if p.due is not None and p.due <= now]

    def late(self, now: float) -> list[str]:
        """Return the parts that do not serve in time; end each, and call `ended`."""
        return [p.name for p in self.parts.values() if p.late is not None and p.late <= now]

    def next(self) -> float:
        """Return when to ask again, at the latest."""
        times = [t for p in self.parts.values() for t in (p.due, p.late) if t is not None]
        return min(times, default=float("inf"))

    def started(self, name: str, now: float) -> int:
        """Note a start, made or about to be; return the process's number."""
        part = self.parts[name]
        part.restarts += part.life > 0
        part.life += 1
        part.due, part.late, part.serves = None, now + self._start_timeout, False
        return part.life

    def serves(self, name: str) -> None:
        """Note that a part serves."""
        part = self.parts[name]
        part.serves, part.late, part.failures = True, None, 0

    def ended(self, name: str, now: float) -> bool:
        """Note a part's end; return whether it will be restarted."""
        part = self.parts[name]
        part.failures += not part.serves
        part.serves, part.late = False, None
        again = self._restart and part.failures < _GIVE_UP
        pause = _PAUSE * 2 ** (part.failures - 1) if part.failures else 0.0
        part.due = now + pause if again else None
        return again

    def has_any(self, names: list[str]) -> bool:
        """Return whether any of these serves, or is to come."""
        parts = [self.parts[name] for name in names]
        return any(part.serves or part.due is not None or part.late is not None for part in parts)

    def serving(self) -> list[str]:
        """Return the parts that serve."""
        return [part.name for part in self.parts.values() if part.serves]
