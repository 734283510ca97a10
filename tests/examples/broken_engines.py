"""The same engine, broken on purpose, one fault a class: the harness must catch each of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import socket_engine
from socket_engine import Engine, EngineTarget, Failed, Replica, Request

if TYPE_CHECKING:
    from collections.abc import Sequence

CAUGHT = {
    "LosesWhatTheDeadHad": ("E1/last-replica-dies", "lost"),
    "SaysNothing": ("E1/last-replica-dies", "no-error"),
    "BlamesNobody": ("E1/last-replica-dies", "no-error"),
    "ForgetsAtItsStop": ("E1/stopped-under-load", "lost"),
    "CancelsNothing": ("E1/stopped-under-load", "late"),
    "MixesUpBlocks": ("E2/one-worker", "wrong-data duplicate"),
    "BeginsAgain": ("E2/tensor-parallel", "duplicate wrong-data"),
    "OneTooMany": ("E2/data-parallel", "wrong-data duplicate"),
    "GivesUp": ("E3/one-of-two", "starved"),
    "FailsAll": ("E3/one-of-two", "lost"),
    "TakesItsTime": ("E3/one-of-two", "late"),
    "AlwaysReady": ("E4/stopped-then-killed", "wrong-data"),
    "ReadyTooEarly": ("E4/stopped-then-killed", "wrong-data"),
    "AlwaysProgressing": ("E4/stopped-worker", "wrong-data"),
    "NeverAgain": ("E4/stopped-worker", "late wrong-data"),
    "DeadWhenStuck": ("E4/stopped-worker", "wrong-data"),
}
"""The case that convicts each, and of what: of one of these kinds."""


class LosesWhatTheDeadHad(Engine):
    """Requests of a dead replica are nobody's."""

    def again(self, request: Request, cause: str) -> None:
        request.replica = None

    def place(self, request: Request) -> None:
        if self.replicas:
            super().place(request)


class SaysNothing(Engine):
    """They fail, without a word."""

    def place(self, request: Request) -> None:
        super().place(request)
        if request.error is not None:
            request.error = Failed()


class BlamesNobody(Engine):
    """They fail, and that is all that is said."""

    def place(self, request: Request) -> None:
        super().place(request)
        if request.error is not None:
            request.error = Failed("the request could not be served")


class ForgetsAtItsStop(Engine):
    """What is open when it is stopped stays so."""

    def stop(self) -> None:
        open = [each for each in self.requests.values() if each.open]
        super().stop()
        for request in open:
            request.error = None


class CancelsNothing(Engine):
    """Who cancels is not heard, and long requests go on."""

    def cancel(self, request: Request) -> None:
        request.moved += 0


class MixedCore(socket_engine.Core):
    """Blocks are known by what is in them, whatever stood before."""

    def key(self, tokens: list[int]) -> tuple[int, ...]:
        return tuple(tokens[-self.block :])


class MixesUpBlocks(Engine):
    """A block is used again behind others than it was made behind."""

    core = ("broken_engines", "MixedCore")


class BeginsAgain(Engine):
    """What a dead replica had is begun anew, as if nothing had been given."""

    def begun(self, request: Request) -> list[int]:
        return request.prompt


class OneTooMany(Engine):
    """One token more than was asked for."""

    def submit(self, prompt: Sequence[int], most: int) -> Request:
        return super().submit(prompt, most + 1)


class GivesUp(Engine):
    """A replica that dies is not started again."""

    def lost(self, replica: Replica) -> None:
        shape, self.shape = self.shape, _without_restart(self.shape)
        super().lost(replica)
        self.shape = shape


class FailsAll(Engine):
    """For three seconds after a death everything is refused, whoever is there."""

    since = -9.0

    def lost(self, replica: Replica) -> None:
        super().lost(replica)
        self.since = time.monotonic()

    def place(self, request: Request) -> None:
        super().place(request)
        if time.monotonic() - self.since < 3.0:
            request.error = Failed("core-1 is dead")


class TakesItsTime(Engine):
    """What a dead replica had fails, six seconds later."""

    def __init__(self, *shape: Any) -> None:
        self.late: list[tuple[float, Request, str]] = []
        super().__init__(*shape)

    def again(self, request: Request, cause: str) -> None:
        request.replica = None
        self.late.append((time.monotonic() + 6.0, request, cause))

    def place(self, request: Request) -> None:
        if all(request is not each for _, each, _ in self.late):
            super().place(request)

    def look_after(self) -> None:
        super().look_after()
        for due, request, cause in self.late:
            if time.monotonic() > due and request.open:
                request.error = Failed(cause)


class AlwaysReady(Engine):
    """It says so, whoever is there."""

    core = ("broken_engines", "LateCore")

    def health(self) -> tuple[bool, bool, bool, int]:
        alive, _, progressing, ready = super().health()
        return alive, True, progressing, ready


class LateCore(socket_engine.Core):
    """Its model takes a while to load."""

    def __init__(self, *made: Any) -> None:
        time.sleep(5.0)  # shorter is what a busy machine is granted
        super().__init__(*made)


class ReadyTooEarly(Engine):
    """A replica is ready as soon as there is a process."""

    core = ("broken_engines", "LateCore")

    def is_ready(self, replica: Replica) -> bool:
        return True


class AlwaysProgressing(Engine):
    """It says so, whatever moves."""

    def health(self) -> tuple[bool, bool, bool, int]:
        alive, ready, _, count = super().health()
        return alive, ready, True, count


class NeverAgain(Engine):
    """Once stuck, it says so for ever."""

    was = False

    def health(self) -> tuple[bool, bool, bool, int]:
        alive, ready, progressing, count = super().health()
        self.was = self.was or not progressing
        return alive, ready, not self.was, count


class DeadWhenStuck(Engine):
    """Alive and progressing are one to it."""

    def health(self) -> tuple[bool, bool, bool, int]:
        _, ready, progressing, count = super().health()
        return progressing, ready, progressing, count


def _without_restart(shape: Any) -> Any:
    import msgspec

    return msgspec.structs.replace(shape, restart=False)


def __getattr__(name: str) -> Any:
    """``broken_engines:TargetOfX`` is the target whose engine is X."""
    engine = globals().get(name.removeprefix("TargetOf"))
    if engine is None or not name.startswith("TargetOf"):
        raise AttributeError(name)
    return type(name, (EngineTarget,), {"engine": engine, "name": name})
