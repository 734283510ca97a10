"""Simulated scenario of a writer that pauses, so that readers sleep, and publishes again (Q8)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from killpoint.errors import CannotWork
from killpoint.simulation.ending import Ending
from killpoint.simulation.environment import SimulatedEnvironment
from killpoint.simulation.programs.delivery import Judge
from killpoint.simulation.programs.handshake import Ends, meet
from killpoint.systems.queue.checks.simulated_wakeups import WakeupRun, check_prompt_wakeups
from killpoint.targets.protocol import BlackBox
from killpoint.targets.shapes import QueueShape
from killpoint.verdict import Violation


class Waking(msgspec.Struct, frozen=True, tag="waking"):
    """A message after each pause, to every reader, without deadlines."""

    sockets: ClassVar[bool] = True
    threads: ClassVar[bool] = False
    reducible: ClassVar[bool] = False

    shape: QueueShape
    pauses: list[float]
    """Simulated seconds before each message."""
    late: bool = False
    """True if messages may be in transit for longer than a pause: subscriptions, above all, that
    the readers' handshake did not wait for."""

    def set_up(self, box: BlackBox, around: SimulatedEnvironment) -> Ends:
        """Make the queue, and run its handshake."""
        ends = meet(box, around, self.shape)
        if not self.late:
            around.sockets.network.flush()
        return ends

    def begin(self, box: BlackBox, around: SimulatedEnvironment, ends: Ends) -> Judge:
        """Make the tasks; return the judge of the run, to be called once it has ended."""
        world = around.world
        run = WakeupRun([], {})
        writer, readers = ends

        def write() -> None:
            for number, pause in enumerate(self.pauses):
                if pause:
                    around.sleep(pause)
                box.send(writer, number, None)
                run.published.append(world.now)
                world.progress()
                world.note(f"has published message {number}")

        def read(name: str, end: object) -> None:
            for number in range(len(self.pauses)):
                got = box.receive(end, None)
                if got != number:
                    run.wrong = run.wrong or f"{name} got {got!r} in place of message {number}"
                    return
                run.taken[name].append(world.now)
                world.progress()
                world.note(f"has message {number}")

        def guarded(name: str, end: object) -> None:
            try:
                if end is writer:
                    write()
                else:
                    read(name, end)
            except CannotWork:
                raise
            except Exception as error:
                run.wrong = run.wrong or f"{name}'s call raised {type(error).__name__}: {error}"

        for name, end in [("writer", writer), *readers.items()]:
            if end is not writer:
                run.taken[name] = []
            world.task(name, lambda name=name, end=end: guarded(name, end))

        def judge(ending: Ending) -> Violation | None:
            run.how, run.waiting, run.hurried = ending.how, ending.waiting, world.hurried
            return check_prompt_wakeups(run)

        return judge
