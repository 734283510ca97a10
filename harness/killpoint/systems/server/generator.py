"""Dialogues for a server, drawn by a seed (H7).

A program starts one server, and has dozens of clients ask at once: with one prompt and several, for
streams and whole answers, with stop strings that begin again within themselves or end with the last
token, slowly, in vain, and without waiting for the end. Each program has every kind; the seed draws
which prompts, lengths and moments they have. Then others leave far more than has been computed.
"""

from __future__ import annotations

import random

from killpoint.scenario import AnyStep, Scenario
from killpoint.systems.server.program import Topology
from killpoint.systems.server.steps import (
    Deserts,
    Exchange,
    Leaves,
    Pace,
    ServerDesertion,
    ServerDialogue,
    ServerShape,
    ServerStart,
    StopAt,
    Wrong,
)

_PROMPTS = 5
"""Number of the program's prompts that a dialogue uses."""
_LENGTHS = (1, 2, 8, 24, 48, 96)
_TIMES = (0.0, 0.0, 0.0, 0.05, 0.1, 0.3, 0.6)
_LEAVES: tuple[Leaves, ...] = ("head", "body", "asked", "piece", "piece", "choice", "choice")
_WRONG: tuple[Wrong, ...] = ("json", "model", "prompt", "last-prompt", "last-prompt")
_PACES: tuple[Pace, ...] = ("reads-slowly", "sends-slowly", "half-closes")
_PLAIN, _STOPPED = 10, 18
_DESERTS: tuple[Deserts, ...] = ("choice", "last-prompt")
_CROWD = 12
"""Number of prompts of a client that leaves the dialogue with one of several completions, or is
refused for its last prompt: others wait behind them. Those who leave more than that come later."""


def program(case: str, seed: int, number: int, topology: Topology) -> Scenario:
    """Return the program of this number of a case."""
    chance = random.Random(f"{seed}/{case}/{number}")
    lengths = [*chance.sample(_LENGTHS[:2], 1), *chance.sample(_LENGTHS[2:], 2)]
    drawn = [_plain(chance, lengths) for _ in range(_PLAIN)]
    drawn += [_stopped(chance, lengths) for _ in range(_STOPPED)]
    drawn += [_leaving(chance, leaves) for leaves in _LEAVES]
    drawn += [_wrong(chance, wrong, lengths) for wrong in _WRONG]
    drawn += [_paced(chance, pace, lengths) for pace in _PACES]
    chance.shuffle(drawn)
    desertion = ServerDesertion(chance.sample(_DESERTS, len(_DESERTS)))
    steps: list[AnyStep] = [ServerStart(), ServerDialogue(drawn), desertion]
    return Scenario(case, ["H7"], steps, server=ServerShape(topology), seed=seed)


def _prompts(chance: random.Random, most: int = 4) -> list[int]:
    return [chance.randrange(_PROMPTS) for _ in range(chance.choice([1, 1, *range(1, most + 1)]))]


def _plain(chance: random.Random, lengths: list[int]) -> Exchange:
    return Exchange(
        _prompts(chance),
        chance.choice(lengths),
        at=chance.choice(_TIMES),
        stream=chance.random() < 0.5,
        usage=chance.random() < 0.5,
        repeat=chance.choice((1, 1, 1, 3)),
    )


def _stopped(chance: random.Random, lengths: list[int]) -> Exchange:
    prompts = _prompts(chance)
    return Exchange(
        prompts,
        chance.choice(lengths),
        at=chance.choice(_TIMES),
        stream=chance.random() < 0.5,
        usage=chance.random() < 0.5,
        stops=[_stop(chance, len(prompts)) for _ in range(chance.choice((1, 1, 2)))],
    )


def _stop(chance: random.Random, prompts: int) -> StopAt:
    end = chance.choice((100, 100, chance.randint(1, 99), chance.randint(1, 99)))
    length = chance.choice((1, 1, 2, 3, 4, 5, 8))
    return StopAt(chance.randrange(prompts), end, length, beside=chance.random() < 0.5)


def _leaving(chance: random.Random, leaves: Leaves) -> Exchange:
    """Return the request of a client that hangs up, while much of its answer is to come."""
    at, stream = chance.choice(_TIMES), chance.random() < 0.5
    if leaves != "choice":
        return Exchange(
            _prompts(chance), 0, at=at, stream=stream or leaves == "piece", leaves=leaves
        )
    first, *others = chance.sample(range(_PROMPTS), 4)
    prompts = [first, *(chance.choice(others) for _ in range(_CROWD))]
    early = [StopAt(0, chance.randint(5, 15), 3)]
    return Exchange(prompts, 0, at=at, stream=True, stops=early, leaves=leaves)


def _wrong(chance: random.Random, wrong: Wrong, lengths: list[int]) -> Exchange:
    """Return a request that cannot be granted; behind prompts that can, if it has several."""
    last = wrong == "last-prompt"
    prompts = _prompts(chance)
    return Exchange(
        prompts,
        0 if last else chance.choice(lengths),
        times=_CROWD // len(prompts) if last else 1,
        at=chance.choice(_TIMES),
        stream=chance.random() < 0.5,
        wrong=wrong,
    )


def _paced(chance: random.Random, pace: Pace, lengths: list[int]) -> Exchange:
    stream = chance.random() < 0.5
    return Exchange(_prompts(chance), max(lengths), chance.choice((1, 2)), stream=stream, pace=pace)
