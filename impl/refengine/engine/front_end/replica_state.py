"""What the front end knows of one replica: its signs of life, its load, what it was sent."""

from ..health import STUCK_AFTER, ReplicaHealth, ReplicaStatus
from ..protocol import Heartbeat
from .router import load

_KEPT_WAITING = 3  # step timeouts that a replica may wait for others with requests of its own


class ReplicaState:
    """Sans I/O, in monotonic seconds. One for each name, through all lives of that replica."""

    def __init__(self, name: str, prefills: bool) -> None:
        self.name, self.prefills = name, prefills
        self.life = 0
        self.pid = 0
        self.serving = False
        """It serves, as far as is known."""
        self.coming = True
        """It is not there, and is about to be."""
        self.open: set[str] = set()
        """Attempts at requests that it has."""
        self.expected = 0
        """Requests that a prefill replica is about to hand on to it."""
        self.steps = 0
        self.imported = 0
        self._sent = 0
        self._heartbeat = Heartbeat(0, 0, 0, 0, 0.0)
        self._heard_at = self._progressed_at = 0.0

    def started(self, life: int, pid: int) -> None:
        """A process has been started; it does not serve yet."""
        self.life, self.pid, self.serving, self.coming = life, pid, False, True

    def arrived(self, now: float) -> None:
        """It serves from now on."""
        self.serving, self.coming = True, False
        self._heard_at = self._progressed_at = now

    def left(self, coming: bool) -> None:
        """It is gone; whether another will come in its place."""
        self.serving, self.coming, self.pid = False, coming, 0
        self._reset()

    def _reset(self) -> None:
        self.open = set()
        self._sent = self.steps = 0
        self._heartbeat = Heartbeat(0, 0, 0, 0, 0.0)

    def heartbeat(self, heartbeat: Heartbeat, now: float) -> None:
        """A sign of life."""
        self.heard_from(now)
        if heartbeat.steps != self._heartbeat.steps:
            self._progressed_at = now
        self.imported += heartbeat.imported - self._heartbeat.imported
        self._heartbeat, self.steps = heartbeat, heartbeat.steps

    def heard_from(self, now: float) -> None:
        """Any message."""
        self._heard_at = now

    def sent(self, attempt: str, now: float) -> None:
        """A request is on its way to it."""
        if not self.open:
            self._progressed_at = now  # it had nothing to do till now
        self._sent += 1
        self.open.add(attempt)

    def progressed(self, now: float) -> None:
        """It has made tokens."""
        self._progressed_at = now

    @property
    def load(self) -> int:
        """See `choice.load`."""
        heartbeat = self._heartbeat
        unseen = max(0, self._sent - heartbeat.taken)
        return load(heartbeat.waiting, heartbeat.running, unseen + self.expected)

    @property
    def waiting(self) -> int:
        """Requests that have not begun there."""
        return self._heartbeat.waiting + max(0, self._sent - self._heartbeat.taken)

    @property
    def running(self) -> int:
        """Requests that have."""
        return self._heartbeat.running

    def since_step(self, now: float) -> float:
        """Seconds without a step, while there is something to do."""
        return max(0.0, now - self._progressed_at) if self.serving and self.open else 0.0

    def state(self, now: float) -> ReplicaStatus:
        """In one word."""
        if not self.serving:
            return "starting" if self.coming else "dead"
        stuck = max(self.since_step(now), now - self._heard_at) > STUCK_AFTER
        return "stuck" if stuck else "ready"

    def health(self, now: float) -> ReplicaHealth:
        """All of it."""
        return ReplicaHealth(
            self.name,
            self.pid,
            self.state(now),
            self.waiting,
            self.running,
            self.since_step(now),
        )

    def drop_reason(self, now: float, step_timeout: float) -> str:
        """Why it is to be ended; empty: it is not."""
        if not self.serving:
            return ""
        silent = now - self._heard_at
        if silent > step_timeout:
            return f"it gave no sign of life for {silent:.1f} s"
        busy = self._heartbeat.busy + silent if self._heartbeat.busy else 0.0
        if busy > step_timeout:
            return f"its workers have been in one step for {busy:.1f} s"
        waited = self.since_step(now)
        if waited > _KEPT_WAITING * step_timeout:
            cause = self._heartbeat.waits_for or "its core"
            return f"its {len(self.open)} requests have waited {waited:.1f} s for {cause}"
        return ""
