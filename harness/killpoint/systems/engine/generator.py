"""Programs for an engine, drawn by a seed (H6).

A program starts one engine, and has dozens of clients ask at once: for short, long and shared
prompts, for one token and many; they cancel before the first token, between two chunks of a prompt,
in the midst of an answer and after its end, and use their id again at once. The KV cache is small,
so that blocks are evicted, and at the end of a phase a request needs nearly all of it. Each program
has every kind; the seed draws prompts, lengths and moments.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count
from typing import Literal

import msgspec

from killpoint.scenario import (
    AnyStep,
    Burst,
    ContinueLoad,
    EngineStart,
    EngineStop,
    Fault,
    ReferenceAnswers,
    Scenario,
    Wait,
    WaitHealthy,
    WaitIdle,
)
from killpoint.systems.engine.steps import Ask, Client
from killpoint.targets.engine_protocol import EngineShape

Topology = Literal["apart", "one-replica", "tensor-parallel", "two-replicas"]
IN_TURN: tuple[Topology, ...] = ("apart", "one-replica", "tensor-parallel")
"""Topologies whose programs have the same phases: one program has one of them."""

_STARTS_WITHIN = 90.0
_BACK_WITHIN = 45.0
_ENDS_WITHIN = 60.0
STILL = 8.0
"""Seconds without any news of open requests after which they are not waited for."""
_IDLE = 2.3
"""Seconds for which an engine has nothing to do: more than it takes to be called stuck."""
_CHUNK = 256
"""Tokens of a step of the reference's: a longer prompt goes in chunks."""
_BLOCKS = (40, 48)
_LENGTHS = (1, 1, 2, 5, 8, 20)
_MOMENTS = (0.0, 0.001, 0.002, 0.003, 0.005, 0.008, 0.012, 0.02)
"""Seconds after which a request is cancelled whose prompt takes several steps."""
_STAGGER = (0.0, 0.0, 0.0, 0.01, 0.03, 0.06)
_COORDINATOR_DEATHS = 9
"""More than any part may fail in a row."""
_LONE_TOKENS, _LONE_ANSWERS = 150, 6
"""Tokens of an answer that goes on meanwhile, and number of those, one after another."""
_CUT_OFF = 4
"""Number of long prompts, computed one after another, beside which the coordinator dies."""
_CUT_OFF_AFTER = 0.12
"""Seconds after which each is given up. They last, together, until there mostly is a coordinator
again: where a wave is on and one replica is busy then, the vote of the other is taken by nobody.
All have ended before the next death, or both replicas would be busy at it."""


def program(case: str, seed: int, number: int, topology: Topology) -> Scenario:
    """Return the program of this number of a case."""
    chance = random.Random(f"{seed}/{case}/{number}")
    phases = _Phases(chance, apart=topology == "apart")
    if topology == "two-replicas":
        shape = EngineShape(data_parallel=2)
        steps = phases.deaths(shape)
    else:
        shape = EngineShape(
            tensor_parallel=2 if topology == "tensor-parallel" else 1,
            prefill=1 if topology == "apart" else 0,
            blocks=chance.choice(_BLOCKS),
        )
        steps = [
            *phases.mixture(),
            *[ContinueLoad(_IDLE), Wait(within=_IDLE + 10.0)],
            *phases.chunks(shape),
            *phases.evictions(shape),
        ]
    start: list[AnyStep] = [EngineStart(timeout=_STARTS_WITHIN), Wait(within=_STARTS_WITHIN + 10)]
    end: list[AnyStep] = [
        EngineStop(),
        Wait(within=30.0),
        ReferenceAnswers(),
        Wait(within=60.0),
    ]
    return Scenario(case, [case.split("/")[0]], [*start, *steps, *end], engine=shape, seed=seed)


def _idle() -> list[AnyStep]:
    return [WaitIdle(_ENDS_WITHIN, still=STILL), Wait(within=_ENDS_WITHIN + 10.0)]


def _burst(clients: Sequence[Client]) -> list[AnyStep]:
    return [Burst(list(clients)), Wait(within=30.0)]


def _continues(seconds: float) -> list[AnyStep]:
    return [ContinueLoad(seconds), Wait(within=seconds + 10.0)]


def _dies(part: str, seconds: float) -> list[AnyStep]:
    """A part is killed some time after answers have begun to come, and is waited for."""
    return [
        *[ContinueLoad(seconds, coming=1), Wait(within=seconds + 10.0)],
        Fault("kill", part),
        *[WaitHealthy(_BACK_WITHIN, vital=True), Wait(within=_BACK_WITHIN + 10.0)],
    ]


class _Phases:
    """Phases of one program; each prompt that is to be new has a family of its own."""

    def __init__(self, chance: random.Random, *, apart: bool) -> None:
        self._chance = chance
        self._early = (2, 3, 5) if apart else (1, 1, 2, 5)
        """Tokens at which a request is cancelled; a first one that is handed on holds blocks."""
        self._families = count(10)
        self._shared = [
            (family, blocks, own)
            for family in range(3)
            for blocks, own in ((0, chance.randint(1, 12)), (1, 1), (2, chance.randint(1, 15)))
        ]

    # -- one replica, or prefill and decode apart -----------------------------------------------

    def mixture(self) -> list[AnyStep]:
        """Many short requests at once, and clients with one id whose requests end in every way."""
        chance = self._chance
        clients = [
            Client([self._short(cancels=chance.random() < 0.25)], at=chance.choice(_STAGGER))
            for _ in range(14)
        ]
        for number in range(8):
            asks = [self._short(cancels=True) for _ in range(3)]
            asks += [self._short(cancels=False) for _ in range(3)]
            chance.shuffle(asks)
            last = self._short(cancels=False)
            clients.append(Client([*asks, last], id=f"client-{number}"))
        chance.shuffle(clients)
        return [*_burst(clients), *_idle()]

    def chunks(self, shape: EngineShape) -> list[AnyStep]:
        """Prompts that go in chunks, most of which are cancelled; then one that needs the cache."""
        chance = self._chance
        clients: list[Client] = []
        for number in range(6):
            asks = [
                Ask(
                    family=next(self._families),
                    blocks=chance.randint(_CHUNK // shape.block_size + 1, shape.blocks // 2 + 8),
                    own=chance.randint(1, 15),
                    max_tokens=2,
                    cancel_after=chance.choice(_MOMENTS),
                )
                for _ in range(3)
            ]
            asks.append(self._short(cancels=False))
            clients.append(Client(asks, at=chance.choice(_STAGGER), id=f"client-{number}"))
        return [*_burst(clients), *_idle(), *self._fills(shape)]

    def evictions(self, shape: EngineShape) -> list[AnyStep]:
        """Pairs that begin alike are computed together; then blocks are evicted, the oldest first.

        The longer ones are asked again once the first of what they share, and not all, is gone.
        """
        chance = self._chance
        pairs = chance.randint(4, 6)
        busy = Client([Ask(own=chance.randint(1, 9), max_tokens=30)])
        clients: list[Client] = [busy]
        longer: list[Ask] = []
        for _ in range(pairs):
            family = next(self._families)
            ask = Ask(family=family, blocks=chance.choice((2, 3)), own=3, max_tokens=3)
            longer.append(ask)
            clients += [
                Client([Ask(family=family, blocks=1, own=4, max_tokens=1)], at=0.02),
                Client([ask], at=0.02),
            ]
        kept = sum(ask.blocks for ask in longer)
        filler = Ask(
            family=next(self._families),
            blocks=shape.blocks - kept + pairs + chance.randint(-2, 2),
            own=5,
            max_tokens=2,
        )
        again = [Client([ask]) for ask in reversed(longer)]
        return [
            *[*_burst(clients), *_idle()],
            *[*_burst([Client([filler])]), *_idle()],
            *[*_burst(again), *_idle()],
            *self._fills(shape),
        ]

    def _fills(self, shape: EngineShape) -> list[AnyStep]:
        """A request that needs the whole cache: nobody else may hold a block."""
        ask = Ask(family=1, blocks=shape.blocks - 1, own=shape.block_size - 3, max_tokens=3)
        return [*_burst([Client([ask])]), *_idle()]

    def _short(self, *, cancels: bool) -> Ask:
        chance = self._chance
        family, blocks, own = chance.choice(self._shared)
        if not cancels:
            most = chance.choice(_LENGTHS)
            return Ask(family, blocks, own, most, cancel_ended=chance.random() < 0.2)
        if chance.random() < 0.5:
            return Ask(family, blocks, own, 20, cancel_at=chance.choice(self._early))
        return Ask(family, blocks, own, 20, cancel_after=chance.choice(_MOMENTS))

    # -- two replicas --------------------------------------------------------------------------

    def deaths(self, shape: EngineShape) -> list[AnyStep]:
        """Parts are killed while answers come, one of them again and again; all come back."""
        chance = self._chance
        replicas = [part for part in shape.parts() if part != "coordinator"]
        steady = [self._new(chance.randint(0, 2), 60) for _ in range(3)]
        first = [Client([chance.choice(steady)], at=chance.choice(_STAGGER)) for _ in range(4)]
        first += [
            Client([self._short(cancels=True), self._short(cancels=False)], id=f"client-{number}")
            for number in range(6)
        ]
        lone = self._new(chance.randint(0, 2), _LONE_TOKENS)
        last = [Client([self._short(cancels=False)]) for _ in range(8)]
        return [
            *_burst(first),
            *_dies(chance.choice(replicas), chance.choice(_STAGGER)),
            *[*_idle(), *_burst([Client([lone] * _LONE_ANSWERS)])],
            *[
                step
                for _ in range(_COORDINATOR_DEATHS)
                for step in [
                    *_burst([Client(self._cut_off(shape))]),
                    *_dies("coordinator", chance.choice(_STAGGER)),
                    *_continues(_CUT_OFF * _CUT_OFF_AFTER),
                ]
            ],
            *[*_burst(last), *_idle()],
        ]

    def _cut_off(self, shape: EngineShape) -> list[Ask]:
        """Return long prompts that are given up: one replica is busy, the other waits for it."""
        return [
            msgspec.structs.replace(self._new(shape.blocks - 20, 1), cancel_after=_CUT_OFF_AFTER)
            for _ in range(_CUT_OFF)
        ]

    def _new(self, blocks: int, most: int) -> Ask:
        return Ask(next(self._families), blocks, self._chance.randint(1, 15), most)
