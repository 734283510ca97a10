"""A tape of what a coordinator's peers say and hear, spoken in sentences."""

from __future__ import annotations

from typing import Any

from synthetic import Tape

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Finding
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.targets.coordinator_protocol import CoordinatorShape
from killpoint.verdict import Violation

Counts = tuple[int, int]


def coordinator_judged(id: str, tape: Tape, **shape: Any) -> Finding:
    """What the judge of an invariant finds on a tape."""
    scenario = Scenario(f"{id}/synthetic", [id], [], coordinator=CoordinatorShape(**shape))
    return CHECKERS[id](scenario, tape.history(), Ledger())


def coordinator_convicted(id: str, tape: Tape, **shape: Any) -> Violation:
    """The one violation that the judge finds."""
    found = coordinator_judged(id, tape, **shape).violations
    assert len(found) == 1, f"expected one violation, found {found}"
    return found[0]


class CoordinatorTape(Tape):
    """Two engines, and a front end; times are in seconds."""

    def __init__(self, *, interval: float = 0.1, idle: float = 1.0, engines: int = 2) -> None:
        super().__init__()
        self.tell("parent", "times", interval=interval, idle=idle)
        self.tell("parent", "coordinator-started", outcome="ok", pid=7)
        for rank in range(engines):
            self.tell(f"engine-{rank}", "linked", rank=rank)
        self.tell("front-end-0", "linked")

    def after(self, seconds: float) -> CoordinatorTape:
        self.later(seconds * 1000)
        return self

    def says(self, rank: int, counts: Counts) -> CoordinatorTape:
        """An engine tells its counts."""
        self.tell(f"engine-{rank}", "said", rank=rank, counts=list(counts))
        return self

    def told(
        self, *counts: Counts | None, wave: int = 0, running: bool = False, front: int = 0
    ) -> CoordinatorTape:
        """A front end hears of all ranks."""
        raw = [None if each is None else list(each) for each in counts]
        about = {"what": "state", "wave": wave, "running": running, "counts": raw}
        self.tell(f"front-end-{front}", "heard", **about)
        return self

    def started(self, wave: int, *members: int, to: int = 0) -> CoordinatorTape:
        """An engine hears that a wave is on."""
        about = {"what": "start", "wave": wave, "members": list(members), "excluded": None}
        self.tell(f"engine-{to}", "heard", **about)
        return self

    def accepts(self, rank: int, number: int, *, stepped: float | None = None) -> CoordinatorTape:
        """A request comes, and after so many seconds is in a wave."""
        self.tell(f"engine-{rank}", "request", n=number, wave=0)
        if stepped is not None:
            self.after(stepped).tell(f"engine-{rank}", "stepped", n=number, wave=0)
        return self

    def does(self, fault: str, role: str) -> CoordinatorTape:
        """Something is done to a role."""
        self.tell("director", "fault", fault=fault, target=role)
        return self

    def lies(self, role: str, lie: str, counts: Counts | None = None) -> CoordinatorTape:
        """A role sends what makes no sense."""
        rank = int(role[-1]) if role.startswith("engine") else None
        kept = None if counts is None else list(counts)
        self.tell(role, "lied", lie=lie, counts=kept, rank=rank, since=self.now)
        return self

    def closes(self, *, logged: int = 100) -> CoordinatorTape:
        """The parent ends it cleanly."""
        self.tell("parent", "coordinator-close")
        self.tell("parent", "coordinator-closed", outcome="ok", s=0.1, logged=logged)
        return self
