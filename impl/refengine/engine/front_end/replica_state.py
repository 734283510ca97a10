"""The front end's view of one replica: its heartbeats, its load, the requests sent to it."""

from ..health import STUCK_AFTER, ReplicaHealth, ReplicaStatus
from ..protocol import Heartbeat
from .router import load

_KEPT_WAITING = 3  # step timeouts that a replica may wait for others with requests of its own


class ReplicaState:
    """State of one replica by name, through all its processes. Sans I/O, in monotonic seconds."""

    def __init__(self, name: str, prefills: bool) -> None:
        self.name, self.prefills = name, prefills
        self.life = 0
        self.pid = 0
        self.serving = False
        """True if it serves, as far as is known."""
        self.coming = True
        """True if it does not serve yet, and is to."""
        self.open: set[str] = set()
        """Ids of its attempts at requests."""
        self.expected = 0
        """Number of requests that a prefill replica is about to hand on to it."""
        self.steps = 0
        self.imported = 0
        self._sent = 0
        self._heartbeat = Heartbeat(0, 0, 0, 0, 0.0)
        self._heard_at = self._progressed_at = 0.0

    def started(self, life: int, pid: int) -> None:
        """Note a started process, which does not serve yet."""
        self.life, self.pid, self.serving, self.coming = life, pid, False, True

    def arrived(self, now: float) -> None:
        """Note that it serves from now on."""
        self.serving, self.coming = True, False
        self._heard_at = self._progressed_at = now

    def left(self, coming: bool) -> None:
        """Note its loss; `coming`: another process will take its place."""
        self.serving, self.coming, self.pid = False, coming, 0
        self._reset()

    def _reset(self) -> None:
        self.open = set()
        self._sent = self.steps = 0
        self._heartbeat = Heartbeat(0, 0, 0, 0, 0.0)

    def heartbeat(self, heartbeat: Heartbeat, now: float) -> None:
        """Take a heartbeat."""
        self.heard_from(now)
        if heartbeat.steps != self._heartbeat.steps:
            self._progressed_at = now
        self.imported += heartbeat.imported - self._heartbeat.imported
        self._heartbeat, self.steps = heartbeat, heartbeat.steps

    def heard_from(self, now: float) -> None:
        """Note a message of any kind."""
        self._heard_at = now

    def sent(self, attempt: str, now: float) -> None:
        """Note a request sent to it."""
        if not self.open:
            self._progressed_at = now  # it was idle until now
        self._sent += 1
        self.open.add(attempt)

    def progressed(self, now: float) -> None:
        """Note that it has made tokens."""
        self._progressed_at = now

    @property
    def load(self) -> int:
        """Its load, as `router.load` weighs it."""
        heartbeat = self._heartbeat
        unseen = max(0, self._sent - heartbeat.taken)
        return load(heartbeat.waiting, heartbeat.running, unseen + self.expected)

    @property
    def waiting(self) -> int:
        """Number of requests that wait there."""
        return self._heartbeat.waiting + max(0, self._sent - self._heartbeat.taken)

    @property
    def running(self) -> int:
        """Number of requests that run there."""
        return self._heartbeat.running

    def since_step(self, now: float) -> float:
        """Return the seconds without a step, while it has requests; else 0."""
        return max(0.0, now - self._progressed_at) if self.serving and self.open else 0.0

    def state(self, now: float) -> ReplicaStatus:
        """Return its status in one word."""
        if not self.serving:
            return "starting" if self.coming else "dead"
        stuck = max(self.since_step(now), now - self._heard_at) > STUCK_AFTER
        return "stuck" if stuck else "ready"

    def health(self, now: float) -> ReplicaHealth:
        """Return its health."""
        return ReplicaHealth(
            self.name,
            self.pid,
            self.state(now),
            self.waiting,
            self.running,
            self.since_step(now),
        )

    def drop_reason(self, now: float, step_timeout: float) -> str:
        """Return why it has to be dropped; empty if it need not be."""
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
