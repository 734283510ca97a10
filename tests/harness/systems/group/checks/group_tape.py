"""A tape of a group's events, spoken in sentences."""

from __future__ import annotations

from typing import Any

from synthetic import Tape

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Finding
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.targets.protocol import GroupShape
from killpoint.verdict import Violation


def group_scene(id: str, *steps: Any, ranks: int = 3) -> Scenario:
    return Scenario(f"{id}/synthetic", [id], list(steps), group=GroupShape(ranks=ranks))


def group_judged(id: str, tape: Tape, *steps: Any, ranks: int = 3) -> Finding:
    """What the judge of an invariant finds on a tape of so many ranks."""
    return CHECKERS[id](group_scene(id, *steps, ranks=ranks), tape.history(), Ledger())


def group_convicted(id: str, tape: Tape, *steps: Any, ranks: int = 3) -> Violation:
    """The one violation that the judge finds."""
    found = group_judged(id, tape, *steps, ranks=ranks).violations
    assert len(found) == 1, f"expected one violation, found {found}"
    return found[0]


class GroupTape(Tape):
    """Calls of ranks; numbers stand for ranks."""

    def posts(
        self, rank: int, to: int, seq: int, outcome: str = "ok", error: str = ""
    ) -> GroupTape:
        """A rank sends to another."""
        about = {"form": "bytes", "size": 64, "digest": f"d{seq}"}
        self.tell(f"rank-{rank}", "send-to", seq=seq, to=f"rank-{to}", **about)
        self.tell(f"rank-{rank}", "sent-to", seq=seq, outcome=outcome, error=error, s=0.001)
        return self

    def takes(self, rank: int, source: int, seq: int, digest: str = "") -> GroupTape:
        """A rank receives from another."""
        who = f"rank-{source}"
        self.tell(f"rank-{rank}", "receive-from", source=who, timeout=5.0)
        found = {"seq": seq, "digest": digest or f"d{seq}"}
        self.tell(f"rank-{rank}", "got-from", source=who, outcome="ok", s=0.001, **found)
        return self

    def misses(
        self,
        rank: int,
        source: int,
        outcome: str,
        *,
        after: float = 0.001,
        timeout: float = 5.0,
        error: str = "",
    ) -> GroupTape:
        """A receive that ends with an error."""
        who = f"rank-{source}"
        self.tell(f"rank-{rank}", "receive-from", source=who, timeout=timeout).later(after * 1000)
        about = {"outcome": outcome, "error": error, "s": after}
        self.tell(f"rank-{rank}", "got-from", source=who, **about)
        return self

    def airs(self, rank: int, seq: int) -> GroupTape:
        """A rank broadcasts."""
        who = f"rank-{rank}"
        self.tell(who, "broadcast", source=who, seq=seq, size=64, digest=f"d{seq}")
        self.tell(who, "broadcast-done", source=who, outcome="ok", seq=seq, s=0.001)
        return self

    def hears(self, rank: int, source: int, seq: int) -> GroupTape:
        """Another takes a broadcast."""
        who = f"rank-{source}"
        self.tell(f"rank-{rank}", "broadcast", source=who)
        found = {"seq": seq, "digest": f"d{seq}"}
        self.tell(f"rank-{rank}", "broadcast-done", source=who, outcome="ok", s=0.001, **found)
        return self

    def gathers(self, rank: int, seq: int, seqs: list[int]) -> GroupTape:
        """A rank gives an object and gets everybody's."""
        self.tell(f"rank-{rank}", "gather", seq=seq, size=64, digest=f"d{seq}")
        digests = [f"d{each}" for each in seqs]
        self.tell(f"rank-{rank}", "gathered", outcome="ok", s=0.001, seqs=seqs, digests=digests)
        return self

    def comes(self, rank: int, timeout: float | None = 1.0, n: int = 0) -> GroupTape:
        """A rank enters a barrier."""
        self.tell(f"rank-{rank}", "barrier", n=n, timeout=timeout)
        return self

    def goes(
        self, rank: int, outcome: str = "ok", *, error: str = "", s: float = 0.01, n: int = 0
    ) -> GroupTape:
        """It comes back from it."""
        about = {"outcome": outcome, "error": error, "s": s}
        self.tell(f"rank-{rank}", "barrier-done", n=n, **about)
        return self

    # -- calls at once ------------------------------------------------------------------------

    def passes(self, ms: float) -> GroupTape:
        """Let time pass, and go on with the group."""
        self.later(ms)
        return self

    def asks(self, rank: int, source: int, thread: int, timeout: float = 5.0) -> GroupTape:
        """A thread of a rank begins to receive."""
        who = f"rank-{source}"
        self.tell(f"rank-{rank}", "receive-from", source=who, timeout=timeout, thread=thread)
        return self

    def gets(
        self, rank: int, source: int, thread: int, seq: int | None, outcome: str = "ok"
    ) -> GroupTape:
        """It comes back, with an object or without one."""
        found = {} if seq is None else {"seq": seq, "digest": f"d{seq}"}
        about = {"source": f"rank-{source}", "outcome": outcome, "s": 0.001, **found}
        self.tell(f"rank-{rank}", "got-from", **about, error="", thread=thread)
        return self

    def comes_in(self, rank: int, thread: int, timeout: float = 5.0) -> GroupTape:
        """A thread of a rank enters a barrier."""
        self.tell(f"rank-{rank}", "barrier", n=0, timeout=timeout, thread=thread)
        return self

    def goes_from(self, rank: int, thread: int, s: float = 0.01) -> GroupTape:
        """It comes back from it."""
        about = {"outcome": "ok", "error": "", "s": s}
        self.tell(f"rank-{rank}", "barrier-done", n=0, **about, thread=thread)
        return self
