"""Cases of memory under a steady stream (Q12)."""

from __future__ import annotations

import msgspec

from killpoint.cases.case import OPEN, Case, scenario
from killpoint.explore.trial import Trial
from killpoint.scenario import AnyStep, Message, Receive, Scenario, Send, Wait, Weigh

_WINDOWS = 50
"""A fifth of them to warm up."""
_LONGER = 3
"""So many times as many where the first play could not tell."""
_RATE = 2_500.0
"""Messages a second."""


def _played(
    id: str, busy: bool, message: Message, rate: float, remote: int, windows: int
) -> Scenario:
    """A stream, weighed after each window: the readers pace it if they are to be ever-busy."""
    sent, taken = (0.0, rate) if busy else (rate, 0.0)
    window: list[AnyStep] = [
        Send([message], timeout=10.0, mutate=False, pace=sent),
        Receive(message.repeat, timeout=10.0, hold=False, pace=taken),
        Wait(within=20.0),
        Weigh(),
    ]
    played = scenario(id, *OPEN, *window * windows)
    shape = msgspec.structs.replace(played.shape, remote=remote)
    return msgspec.structs.replace(played, shape=shape)


def _stream(
    id: str,
    summary: str,
    message: Message,
    rate: float = _RATE,
    *,
    busy: bool = False,
    remote: int = 0,
) -> Case:
    def run(trial: Trial) -> None:
        first, longer = (
            _played(id, busy, message, rate, remote, windows)
            for windows in (_WINDOWS, _LONGER * _WINDOWS)
        )
        trial.play(
            msgspec.structs.replace(first, seed=trial.seed),
            longer=msgspec.structs.replace(longer, seed=trial.seed),
        )

    needs = {"queue", "deadlines"} | ({"remote"} if remote else set[str]())
    return Case(id, summary, run, frozenset(needs))


_SMALL = Message(size=512, repeat=1_000)
_LARGE = Message("array", 100_000, repeat=400)

CASES: tuple[Case, ...] = (
    _stream("Q12/paced-stream", "readers wait for each message", _SMALL),
    _stream("Q12/busy-readers", "readers always find a message", _SMALL, busy=True),
    _stream("Q12/paced-overflow", "messages that go beside the ring", _LARGE, 1_000.0),
    _stream("Q12/remote-stream", "one of the readers is remote", _SMALL, remote=1),
)
