"""Simulated scenario of a queue: one task sends, each reader's task receives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import msgspec

from killpoint.errors import CannotWork
from killpoint.interfaces import World
from killpoint.simulation.ending import Ending
from killpoint.simulation.environment import SimulatedEnvironment
from killpoint.systems.queue.checks.simulated_delivery import Delivered, delivered
from killpoint.targets.protocol import BlackBox
from killpoint.targets.shapes import QueueShape
from killpoint.verdict import Violation

Judge = Callable[[Ending], Violation | None]

_BYTES = 16
WRONG = "but that it is not"
"""Note at the first wrong message in a recorded schedule, as ``raises`` at an error."""


class Delivery(msgspec.Struct, frozen=True, tag="delivery"):
    """So many messages from the writer to every reader, without deadlines."""

    sockets: ClassVar[bool] = False
    threads: ClassVar[bool] = False
    reducible: ClassVar[bool] = True
    late: ClassVar[bool] = False

    shape: QueueShape
    messages: int
    first: Literal["writer", "readers"] = "writer"
    """Tasks that come first where nothing else decides: the order of tasks is part of a test."""

    def set_up(self, box: BlackBox, around: SimulatedEnvironment) -> list[Any]:
        """Make the queue; return the writer's end, then the readers'."""
        del around
        end = box.make(self.shape)
        handle = box.handle(end)
        return [end, *(box.attach(handle, rank) for rank in range(self.shape.readers))]

    def begin(self, box: BlackBox, around: SimulatedEnvironment, ends: list[Any]) -> Judge:
        """Make the tasks; return the judge of the run, to be called once it has ended."""
        world = around.world
        run = Delivered([_payload(k) for k in range(self.messages)], {})
        end, *readers = ends

        def write() -> None:
            for number, content in enumerate(run.sent):
                box.send(end, content, None)
                world.progress()
                world.note(f"has sent message {number}")

        def read(name: str, mine: object, got: list[bytes]) -> None:
            for place, content in enumerate(run.sent):
                got.append(box.receive(mine, None))
                world.progress()
                world.note(f"takes it for message {place}")
                if got[-1] != content:
                    world.note(WRONG)
                    return

        tasks = [_guarded(world, run, "writer", write)]
        for rank, mine in enumerate(readers):
            name = f"reader-{rank}"
            run.got[name] = []
            tasks.append(_guarded(world, run, name, _bound(read, name, mine, run.got[name])))
        for name, task in tasks if self.first == "writer" else [*tasks[1:], tasks[0]]:
            world.task(name, task)

        def judge(ending: Ending) -> Violation | None:
            run.how, run.waiting = ending.how, ending.waiting
            return delivered(run)

        return judge


def _payload(number: int) -> bytes:
    return bytes([number % 255 + 1]) * _BYTES


def _bound(run: Callable[..., None], *arguments: object) -> Callable[[], None]:
    return lambda: run(*arguments)


def _guarded(
    world: World, run: Delivered, name: str, task: Callable[[], None]
) -> tuple[str, Callable[[], None]]:
    """Wrap a task so that the target's errors are recorded; the harness's own propagate."""

    def guarded() -> None:
        try:
            task()
        except CannotWork:
            raise
        except Exception as error:
            run.failed[name] = f"{type(error).__name__}: {error}"
            world.note(f"raises {run.failed[name]}")

    return name, guarded
