"""How workers are brought to leave: asked, then told by SIGTERM, then killed (SPEC W5)."""

from enum import Enum


class Step(Enum):
    """What to do to whoever is still there."""

    ASK = "ask"
    TERMINATE = "terminate"
    KILL = "kill"
    GIVE_UP = "give up"


class Escalation:
    """A clock's reading goes in, the step that is due comes out, once each, in order."""

    def __init__(self, grace: float, term_grace: float, kill_grace: float, now: float) -> None:
        self._due = [
            (now, Step.ASK),
            (now + grace, Step.TERMINATE),
            (now + grace + term_grace, Step.KILL),
            (now + grace + term_grace + kill_grace, Step.GIVE_UP),
        ]

    @property
    def next_at(self) -> float | None:
        """When the next step is due; None after the last."""
        return self._due[0][0] if self._due else None

    def step(self, now: float) -> Step | None:
        """The step that is due, if one is."""
        if self._due and now >= self._due[0][0]:
            return self._due.pop(0)[1]
        return None
