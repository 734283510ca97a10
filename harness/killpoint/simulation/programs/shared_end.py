"""Simulated scenario of two threads that use one end of a queue at once (Q13).

Such threads share the object's attributes, so there is a point before every line of the target's
own code, beside those at memory and sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

from killpoint.errors import CannotWork
from killpoint.simulation.ending import Ending
from killpoint.simulation.environment import SimulatedEnvironment
from killpoint.simulation.lines import Lines
from killpoint.simulation.programs.delivery import Judge
from killpoint.simulation.programs.handshake import meet
from killpoint.systems.queue.checks.simulated_sharing import Shared, exactly_once
from killpoint.targets.protocol import BlackBox
from killpoint.targets.shapes import QueueShape
from killpoint.verdict import Violation

_AT_ONCE = -1.0
"""Timeout that is over: the call must not wait."""
_THREADS = 2


class Laid(NamedTuple):
    """Initial state of the threads: both ends, and the messages sent before they begin."""

    writer: Any
    reader: Any
    run: Shared


class Sharing(msgspec.Struct, frozen=True, tag="sharing"):
    """Each of two threads makes so many calls; there are slots enough that none has to wait."""

    sockets: ClassVar[bool] = True
    threads: ClassVar[bool] = True
    reducible: ClassVar[bool] = False
    late: ClassVar[bool] = False

    shape: QueueShape
    calls: int
    operation: Literal["send", "receive"]

    def set_up(self, box: BlackBox, around: SimulatedEnvironment) -> Laid:
        """Make the queue, with messages in it if threads are to receive."""
        writer, readers = meet(box, around, self.shape)
        around.sockets.network.flush()
        (reader,) = readers.values()
        run = Shared([], [], [])
        if self.operation == "receive":
            for number in range(_THREADS * self.calls):
                _send(box, writer, number, None, run)
        return Laid(writer, reader, run)

    def begin(self, box: BlackBox, around: SimulatedEnvironment, laid: Laid) -> Judge:
        """Make the tasks; return the judge of the run, which first empties the queue."""
        world = around.world
        writer, reader, before = laid
        run = Shared(before.accepted[:], before.refused[:], [])
        lines = Lines(world, around.is_own)
        count = _THREADS * self.calls

        def send(number: int) -> None:
            world.note(_send(box, writer, number, _AT_ONCE, run))

        def receive(_: int) -> None:
            try:
                got = box.receive(reader, _AT_ONCE)
            except CannotWork:
                raise
            except Exception as error:
                world.note(f"its call raised {type(error).__name__}")
            else:
                run.got.append(got)
                world.note(f"has message {got}")

        act = send if self.operation == "send" else receive
        for thread in range(_THREADS):
            numbers = range(thread, count, _THREADS)
            world.task(f"thread-{thread}", lines.traced(_each(act, numbers)))

        def judge(ending: Ending) -> Violation | None:
            if not lines.count:
                raise CannotWork("no line of the target's own code was a point")
            run.how, run.waiting = ending.how, ending.waiting
            if ending.how == "done":
                _empty(box, reader, run, count)
            return exactly_once(run)

        return judge


def _send(box: BlackBox, writer: Any, number: int, timeout: float | None, run: Shared) -> str:
    """Make one call; return its outcome in words."""
    try:
        box.send(writer, number, timeout)
    except CannotWork:
        raise
    except Exception as error:
        run.refused.append(number)
        return f"its call raised {type(error).__name__}"
    run.accepted.append(number)
    return f"has sent message {number}"


def _each(act: Callable[[int], None], numbers: range) -> Callable[[], None]:
    def run() -> None:
        for number in numbers:
            act(number)

    return run


def _empty(box: BlackBox, reader: Any, run: Shared, most: int) -> None:
    """Receive the remaining messages, until none is left or an object is no message."""
    for _ in range(2 * most):
        try:
            got = box.receive(reader, _AT_ONCE)
        except CannotWork:
            raise
        except TimeoutError:
            return
        except Exception as error:
            run.broken = f"the reader's call raised {type(error).__name__}: {error}"
            return
        if not isinstance(got, int):
            run.broken = f"something came that nobody sent: {got!r}"
            return
        run.got.append(got)
