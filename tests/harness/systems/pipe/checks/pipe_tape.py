"""A tape of a pipe's events, spoken in sentences."""

from __future__ import annotations

from typing import Any

from synthetic import Tape

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Finding
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.targets.protocol import PipeShape
from killpoint.verdict import Violation


def pipe_scene(id: str, *steps: Any, **shape: Any) -> Scenario:
    return Scenario(f"{id}/synthetic", [id], list(steps), pipe=PipeShape(**shape))


def pipe_judged(id: str, tape: Tape, *steps: Any, **shape: Any) -> Finding:
    """What the judge of an invariant finds on a tape of two ranks."""
    return CHECKERS[id](pipe_scene(id, *steps, **shape), tape.history(), Ledger())


def pipe_convicted(id: str, tape: Tape, *steps: Any, **shape: Any) -> Violation:
    """The one violation that the judge finds."""
    found = pipe_judged(id, tape, *steps, **shape).violations
    assert len(found) == 1, f"expected one violation, found {found}"
    return found[0]


class PipeTape(Tape):
    """Calls of ranks; numbers stand for ranks and for tensors."""

    def gives(
        self, rank: int, seq: int, outcome: str = "ok", *, form: str = "tensor", error: str = ""
    ) -> PipeTape:
        """A rank sends a tensor; ``never`` for a call that does not come back."""
        digest = {"none": "none", "meta": "no bytes"}.get(form, f"d{seq}")
        about = {"dtype": "int8", "shape": [4], "bytes": 4, "form": form, "digest": digest}
        self.tell(f"pipe-{rank}", "pipe-send", seq=seq, timeout=None, **about)
        if outcome != "never":
            about = {"outcome": outcome, "error": error, "s": 0.001}
            self.tell(f"pipe-{rank}", "pipe-sent", seq=seq, **about)
        return self

    def changes(self, rank: int, seq: int) -> PipeTape:
        """It overwrites what it has sent."""
        self.tell(f"pipe-{rank}", "overwritten", seq=seq, digest=f"changed{seq}")
        return self

    def asks(self, rank: int) -> PipeTape:
        """A rank waits for a tensor."""
        self.tell(f"pipe-{rank}", "pipe-receive", timeout=None)
        return self

    def gets(
        self, rank: int, seq: int, digest: str = "", *, asked: bool = False, grew: int = 0
    ) -> PipeTape:
        """One comes to it."""
        if not asked:
            self.asks(rank)
        known: dict[str, Any] = {"dtype": "int8", "shape": [4], "digest": digest or f"d{seq}"}
        known |= {"grew": grew} if grew else {}
        self.tell(f"pipe-{rank}", "pipe-got", outcome="ok", s=0.001, **known)
        return self

    def misses(self, rank: int, outcome: str, *, asked: bool = False, grew: int = 0) -> PipeTape:
        """Its receive ends with an error."""
        if not asked:
            self.asks(rank)
        known = {"grew": grew} if grew else {}
        self.tell(f"pipe-{rank}", "pipe-got", outcome=outcome, error="E", s=0.001, **known)
        return self

    def keeps(self, rank: int, count: int) -> PipeTape:
        """Its buffer is looked at."""
        self.tell(f"pipe-{rank}", "buffered", bytes=count, s=0.0)
        return self

    def closes(self, rank: int, outcome: str = "ok", *, after: float = 0.001) -> PipeTape:
        """It closes its end."""
        self.tell(f"pipe-{rank}", "pipe-close", timeout=None).later(after * 1000)
        self.tell(f"pipe-{rank}", "pipe-closed", outcome=outcome, error="E", s=after)
        return self

    def lies(self, rank: int, lie: str) -> PipeTape:
        """It says what is not so."""
        self.tell(f"pipe-{rank}", "forge", lie=lie)
        self.tell(f"pipe-{rank}", "forged", lie=lie, outcome="ok", s=0.001)
        return self

    def dies(self, rank: int) -> PipeTape:
        """It is killed."""
        self.kills(f"pipe-{rank}")
        return self

    def lends(
        self, request: str, *digests: str, lease: float = 4.0, outcome: str = "", after: float = 0
    ) -> PipeTape:
        """Rank 0 sends a request's blocks; without an outcome it is still at it."""
        about = {"request": request, "digests": list(digests), "lease": lease}
        self.tell("pipe-0", "blocks-send", **about)
        return self.lent(request, outcome, after=after) if outcome else self

    def lent(self, request: str, outcome: str = "ok", *, after: float = 0) -> PipeTape:
        """That has ended."""
        self.later(after * 1000)
        self.tell("pipe-0", "blocks-sent", request=request, outcome=outcome, error="E", s=after)
        return self

    def serves(self, request: str, *digests: str, after: float = 0) -> PipeTape:
        """Rank 1 is served these blocks for a request."""
        self.tell("pipe-1", "blocks-receive", request=request, timeout=3.0).later(after * 1000)
        about = {"request": request, "digests": list(digests), "outcome": "ok", "s": after}
        self.tell("pipe-1", "blocks-got", **about)
        return self

    def denies(self, request: str, outcome: str = "timeout", *, after: float = 0.5) -> PipeTape:
        """Rank 1 is told that there is nothing to serve."""
        self.tell("pipe-1", "blocks-receive", request=request, timeout=after).later(after * 1000)
        about = {"request": request, "digests": [], "outcome": outcome, "error": "E", "s": after}
        self.tell("pipe-1", "blocks-got", **about)
        return self
