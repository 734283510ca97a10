"""Puts hangs into whole servers, looks at each with ``killpoint inspect``, scores what it says."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Literal

import msgspec

from killpoint.bench import machine
from killpoint.bench.hangs.kinds import HEALTHY, Kind, healthy
from killpoint.bench.machine import Machine
from killpoint.bench.recovery.run import LACKS, Player, Server, why_not
from killpoint.history.record import History
from killpoint.progress.counting import Tell
from killpoint.runner.stage import Stage
from killpoint.systems.server.program import Topology

SCHEMA = 1
Says = Literal["right", "wrong", "cannot-tell", "clear"]
"""Verdict of an inspection on a hang: the process that was struck; another one; that it cannot be
told; or that all is clear. Of a healthy tree ``wrong`` is blame, and all others are right."""
_HANGS_NOT = "it does not hang: "
_IN_VAIN = 3
"""Plays of a hang in which a server came through, before it is taken for one that always does."""
_HEALTHY_IN_A_PLAY = 50
_HEALTHY_AS: tuple[Topology, ...] = ("tensor-parallel", "data-parallel", "front-ends")
"""Topologies of the healthy trees, in turn; a server that lacks one is not inspected with it."""


class Looked(msgspec.Struct, frozen=True):
    """One inspection of a server."""

    server: str
    """The spec of the server."""
    kind: str
    says: Says
    named: str
    """The part that it blamed first; empty: none."""
    words: str
    """First line of what the inspection reported."""
    seconds: float


class Missed(msgspec.Struct, frozen=True):
    """A play that gave no look."""

    server: str
    kind: str
    why: str

    @property
    def lacks(self) -> bool:
        """True if the server has no such part, or does not hang so."""
        return self.why.startswith((LACKS, _HANGS_NOT))


class Score(msgspec.Struct, frozen=True):
    """A whole run, as it is stored."""

    machine: Machine
    servers: list[Server]
    kinds: list[str]
    looked: list[Looked]
    missed: list[Missed]
    asked: int
    """Number of inspections planned for each kind of hang on each server that has the kind."""
    seconds: float
    schema: int = SCHEMA

    def of(self, kind: str, server: str = "") -> list[Looked]:
        """The looks at a kind of hang, on one server or on all."""
        return [x for x in self.looked if x.kind == kind and server in ("", x.server)]

    def failures(self) -> list[str]:
        """Return what could have been inspected and was not, with the reasons."""
        return [f"{x.kind} on {x.server}: {x.why}" for x in self.missed if not x.lacks]


def score(
    servers: Sequence[tuple[Server, str]],
    kinds: Sequence[Kind],
    each: int,
    healthy_looks: int,
    seed: int,
    tell: Tell,
    opened: Callable[[str], Player] = Stage,
) -> Score:
    """Inspect every kind of hang on every server so often, and trees that do not hang.

    Args:
        servers: each with its resolved spec.
        healthy_looks: at all servers together.
    """
    began, found = time.monotonic(), machine.look()
    looked: list[Looked] = []
    missed: list[Missed] = []
    plays = list(_plays(len(servers), kinds, each, healthy_looks))
    total = len(plays)
    with ExitStack() as stack:
        players = [stack.enter_context(opened(resolved)) for _, resolved in servers]
        given_up: set[tuple[str, str, str]] = set()
        hung, survived = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
        try:
            for number, (at, kind) in enumerate(plays):
                spec = servers[at][0].spec
                story = spec, kind.name, kind.topology
                if story in given_up or (kind.survivable and hung[story] >= each):
                    continue
                tell(f"{kind.name} on {spec}", number, total)
                play = players[at].play(kind.scenario(seed + number))
                try:
                    why = why_not(play)
                    if kind.survivable and play.unreached:
                        why = f"{_HANGS_NOT}{why}"
                    seen = list(_looked(spec, kind, play.history))
                    looked += seen
                    hung[story] += len(seen)
                finally:
                    players[at].forget(play)
                if why:
                    missed.append(Missed(spec, kind.name, why))
                survived[story] += why.startswith(_HANGS_NOT)
                if why.startswith(LACKS) or (survived[story] >= _IN_VAIN and not hung[story]):
                    given_up.add(story)
        except (KeyboardInterrupt, SystemExit):
            tell("interrupted: what was looked at by now is told")
    told = [server for server, _ in servers]
    names = [kind.name for kind in kinds]
    took = round(time.monotonic() - began, 1)
    return Score(found, told, names, looked, missed, each, took)


def _plays(
    servers: int, kinds: Sequence[Kind], each: int, healthy_looks: int
) -> Iterator[tuple[int, Kind]]:
    """Yield the index of a server and the kind to play on it, the servers in turn.

    A hang that a server may come through is there twice as often: it is played until it hung so
    often, or again and again in vain.
    """
    for kind in kinds:
        for _ in range(-(-each // kind.hangs) * (2 if kind.survivable else 1)):
            yield from ((at, kind) for at in range(servers))
    trees = itertools.cycle(itertools.product(_HEALTHY_AS, range(servers)))
    for begun, (topology, at) in zip(
        range(0, healthy_looks, _HEALTHY_IN_A_PLAY), trees, strict=False
    ):
        yield at, healthy(min(_HEALTHY_IN_A_PLAY, healthy_looks - begun), topology)


def _looked(spec: str, kind: Kind, history: History) -> Iterator[Looked]:
    """Yield the verdict of each inspection, judged against the process struck before it."""
    struck = ""
    for event in history.of("struck", "inspected"):
        if event.kind == "struck":
            struck = event.text("target")
            continue
        named, words = event.text("part"), event.text("says")
        unsure = [str(line) for line in event.items("unsure")]
        right = kind.right or ((struck,) if struck else ())
        says = verdict(named, right, blames=bool(words), unsure=bool(unsure), kind=kind.name)
        first = words or (unsure[0] if unsure else "")
        yield Looked(spec, kind.name, says, named, first, event.number("ms", 0) / 1000)


def verdict(named: str, right: Sequence[str], *, blames: bool, unsure: bool, kind: str) -> Says:
    """Judge the process that an inspection named against those that would be right."""
    if kind == HEALTHY:
        return "wrong" if blames else "cannot-tell" if unsure else "clear"
    if blames:
        return "right" if named in right else "wrong"
    return "cannot-tell" if unsure else "clear"
