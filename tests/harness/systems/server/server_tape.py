"""The record of a server's play, told in a few words; times in seconds."""

from __future__ import annotations

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Finding
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario, ServerShape
from killpoint.verdict import Violation

PARTS = ["core-0", "front", "worker-0", "worker-1"]


class ServerTape:
    """A server that is up, and what happens to it."""

    def __init__(
        self,
        drain: float | None = 5.0,
        *,
        slow: float = 1.0,
        parts: list[str] = PARTS,
        restarts: bool = False,
        unjudged: dict[str, str] | None = None,
    ) -> None:
        self.events: list[Event] = []
        self._count = 0
        how = {"drain": drain, "usual": 1 / slow, "restarts": restarts, "host": "127.0.0.1"}
        how |= {"unjudged": unjudged} if unjudged else {}
        self.at(0.0, "server-start", topology="tensor-parallel", **how)
        self.tree(0.0, *parts)
        self.at(1.0, "ready", s=1.0)

    def at(self, t: float, kind: str, **data: object) -> ServerTape:
        """Something happened."""
        self.events.append(Event(int(t * 1e9), "driver", kind, data))
        return self

    def tree(self, t: float, *parts: str) -> ServerTape:
        """These live from now on."""
        self.at(t, "tree", parts=sorted(parts))
        return self if parts else self.at(t, "gone")

    def asks(
        self,
        t: float,
        end: str = "",
        ended: float = 0.0,
        *,
        control: bool = False,
        utility: bool = False,
        why: str = "",
        status: int = 200,
        last: float = 0.0,
    ) -> ServerTape:
        """A client asks, and its request ends so; ``last``: when its last piece came."""
        self._count += 1
        phase = "control" if control else "utility" if utility else "load"
        self.at(t, "ask", n=self._count, phase=phase)
        if end:
            how = {"end": end, "why": why, "status": status, "last": int(last * 1e9)}
            self.at(ended, "answer", n=self._count, **how)
        return self

    def strikes(self, t: float, fault: str, part: str) -> ServerTape:
        """A fault is done, and seen to act."""
        self.at(t, "intent", fault=fault, target=part)
        self.at(t, "fault", fault=fault, target=part)
        return self.at(t + 0.01, "struck", fault=fault, target=part)

    def streams(self, since: float, until: float, rate: float) -> ServerTape:
        """So many characters come to streams a second, looked at ten times a second."""
        got = max((e.number("chars", 0) for e in self.events), default=0)
        for n in range(1, int((until - since) * 10) + 1):
            self.at(since + n / 10, "sample", heard=0, open=12, chars=got + int(rate * n / 10))
        return self

    def goes_on(
        self, since: float, until: float, *, health: int = 200, pieces: int = 0, open: int = 12
    ) -> ServerTape:
        """Looks at it, ten a second, while so many pieces come with each."""
        heard = max((e.number("heard", 0) for e in self.events), default=0)
        for n in range(int((until - since) * 10)):
            heard += pieces
            t = since + n / 10
            self.at(t, "sample", heard=heard, open=open).at(t, "health", status=health)
        return self

    def ends(self, t: float, **how: int) -> ServerTape:
        """The front ends."""
        return self.at(t, "front-ended", part="front", **how)

    def judged(self, id: str, ledger: Ledger | None = None) -> Finding:
        """What its judge says."""
        scenario = Scenario(f"{id}/x", [id], [], server=ServerShape(), umask=0)
        return CHECKERS[id](scenario, History(self.events), ledger or Ledger())

    def violation(self, id: str, ledger: Ledger | None = None) -> Violation | None:
        """The violation that it shows, if any."""
        found = self.judged(id, ledger).violations
        return found[0] if found else None
