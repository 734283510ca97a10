"""What the front end knows of one replica: its signs of life, its load, what it was sent."""

from .choice import load
from .health import STUCK_AFTER, ReplicaHealth, ReplicaState
from .messages import Beat

_KEPT_WAITING = 3  # step timeouts that a replica may wait for others with requests of its own


class ReplicaBook:
    """Sans I/O, in monotonic seconds. One for each name, through all lives of that replica."""

    def __init__(self, name: str, prefills: bool) -> None:
        self.name, self.prefills = name, prefills
        self.life = 0
        self.pid = 0
        self.there = False
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
        self._beat = Beat(0, 0, 0, 0, 0.0)
        self._heard = self._got_on = 0.0

    def born(self, life: int, pid: int) -> None:
        """A process has been started; it does not serve yet."""
        self.life, self.pid, self.there, self.coming = life, pid, False, True

    def arrived(self, now: float) -> None:
        """It serves from now on."""
        self.there, self.coming = True, False
        self._heard = self._got_on = now

    def left(self, coming: bool) -> None:
        """It is gone; whether another will come in its place."""
        self.there, self.coming, self.pid = False, coming, 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.open = set()
        self._sent = self.steps = 0
        self._beat = Beat(0, 0, 0, 0, 0.0)

    def heard(self, beat: Beat, now: float) -> None:
        """A sign of life."""
        self.spoke(now)
        if beat.steps != self._beat.steps:
            self._got_on = now
        self.imported += beat.imported - self._beat.imported
        self._beat, self.steps = beat, beat.steps

    def spoke(self, now: float) -> None:
        """Any message."""
        self._heard = now

    def sent(self, attempt: str, now: float) -> None:
        """A request is on its way to it."""
        if not self.open:
            self._got_on = now  # it had nothing to do till now
        self._sent += 1
        self.open.add(attempt)

    def got_on(self, now: float) -> None:
        """It has made tokens."""
        self._got_on = now

    @property
    def load(self) -> int:
        """See `choice.load`."""
        beat = self._beat
        unseen = max(0, self._sent - beat.taken)
        return load(beat.waiting, beat.running, unseen + self.expected)

    @property
    def waiting(self) -> int:
        """Requests that have not begun there."""
        return self._beat.waiting + max(0, self._sent - self._beat.taken)

    @property
    def running(self) -> int:
        """Requests that have."""
        return self._beat.running

    def since_step(self, now: float) -> float:
        """Seconds without a step, while there is something to do."""
        return max(0.0, now - self._got_on) if self.there and self.open else 0.0

    def state(self, now: float) -> ReplicaState:
        """In one word."""
        if not self.there:
            return "starting" if self.coming else "dead"
        stuck = max(self.since_step(now), now - self._heard) > STUCK_AFTER
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

    def verdict(self, now: float, step_timeout: float) -> str:
        """Why it is to be ended; empty: it is not."""
        if not self.there:
            return ""
        silent = now - self._heard
        if silent > step_timeout:
            return f"it gave no sign of life for {silent:.1f} s"
        busy = self._beat.busy + silent if self._beat.busy else 0.0
        if busy > step_timeout:
            return f"its workers have been in one step for {busy:.1f} s"
        waited = self.since_step(now)
        if waited > _KEPT_WAITING * step_timeout:
            cause = self._beat.waits_for or "its core"
            return f"its {len(self.open)} requests have waited {waited:.1f} s for {cause}"
        return ""
