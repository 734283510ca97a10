"""A tape of an engine's life: requests, looks and strikes, without playing anything."""

from __future__ import annotations

from typing import Any

from synthetic import Tape

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Finding
from killpoint.ledger import Ledger
from killpoint.scenario import EngineStart, Fault, Load, Scenario
from killpoint.systems.engine.load import digest, prefixes
from killpoint.targets.engine_protocol import EngineShape
from killpoint.verdict import Violation

FRONT = "front-end"
WELL = "alive ready progressing"
TOKENS = [3, 1, 4, 1, 5]
"""What the model alone gives for every key."""


class EngineTape(Tape):
    """Ten requests a second, a look at each, unless told otherwise."""

    def __init__(self, *, start: float = 2.0, **shape: Any) -> None:
        super().__init__()
        self.shape = EngineShape(**shape)
        self.told: list[Any] = [EngineStart(), Load()]
        self.n = self.tokens = self.stalled = 0
        self.tell(FRONT, "engine-started", outcome="ok", s=start).tell(FRONT, "load", rate=10.0)
        for part in self.shape.parts():
            self.tell("director", "part-here", target=part, pid=1)

    def asks(self, key: int = 0, within: float = 5.0) -> int:
        """A request; its number."""
        self.n += 1
        self.tell(FRONT, "request", n=self.n, key=key, prompt=9, max=len(TOKENS), within=within)
        return self.n

    def gives(self, n: int, tokens: list[int] | None = None, finish: str = "length") -> EngineTape:
        """It ended well."""
        given = TOKENS if tokens is None else tokens
        self.tell(FRONT, "first", n=n)
        about = {"count": len(given), "digest": digest(given), "key": 0}
        self.tell(FRONT, "answer", n=n, outcome="ok", finish=finish, error="", **about)
        self.tokens += len(given)
        return self

    def fails(self, n: Any, error: str = "core-0 died", outcome: str = "failed", **_: Any) -> Any:
        """It ended with an error."""
        about = {"count": 0, "digest": digest([]), "key": 0, "finish": ""}
        return self.tell(FRONT, "answer", n=n, outcome=outcome, error=error, **about)

    def looks(
        self,
        words: str = WELL,
        *,
        open: int = 0,
        stalled: float = 0.0,
        **how: Any,
    ) -> EngineTape:
        """What it says of itself now."""
        said = {word: word in words.split() for word in ("alive", "ready", "progressing")}
        about = {"tokens": self.tokens, "open": open, "stalled": stalled, "s": 0.001, **how}
        self.tell(FRONT, "looked", **said, **about)
        return self

    def serves(self, seconds: float, words: str = WELL) -> EngineTape:
        """It does what it is asked."""
        for _ in range(round(seconds * 10)):
            self.later(97)
            self.gives(self.asks()).looks(words)
        return self

    def hangs_on(self, seconds: float, words: str) -> EngineTape:
        """One request waits, and nothing comes."""
        for tenth in range(round(seconds * 10)):
            self.later(99)
            self.looks(words, open=1, stalled=tenth / 10)
        return self

    def strikes(self, fault: str, part: str) -> EngineTape:
        """Something is done to a part."""
        self.told.append(Fault(fault, part))
        self.tell("director", "fault", fault=fault, target=part, pid=1)
        if fault == "kill":
            self.tell("director", "gone", target=part, pid=1, signal=9)
        return self

    def whole(self, yes: bool = True) -> EngineTape:
        """Somebody has waited for it to be what it was."""
        self.tell("director", "part-here", target="core-0", pid=2)
        self.tell(FRONT, "whole", yes=yes, s=1.0)
        return self

    def calm(self) -> EngineTape:
        """No more requests; the engine is stopped, and the model run alone."""
        self.tell(FRONT, "calm", yes=True).tell(FRONT, "engine-stop")
        self.tell(FRONT, "engine-stopped", outcome="ok")
        self.tell(FRONT, "alone", key=0, finish="length", prefixes=prefixes(TOKENS))
        return self

    def judged(self, id: str, *more: str) -> Finding:
        """What the judge of an invariant finds."""
        scenario = Scenario(f"{id}/x", [id, *more], self.told, engine=self.shape)
        return CHECKERS[id](scenario, self.history(), Ledger())

    def convicted(self, id: str, *more: str) -> Violation:
        """The one violation that it finds."""
        found = self.judged(id, *more).violations
        assert len(found) == 1, f"expected one violation, found {found}"
        return found[0]
