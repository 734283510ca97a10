"""A world that is put back plays the same runs as one that is made anew."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from killpoint.interfaces import Chooser
from killpoint.search.rewindable_run import NotRewindable, Play, RewindableRun
from killpoint.search.schedules.exploration import explore
from killpoint.search.schedules.preemptions import Preemptions
from killpoint.search.schedules.random_walk import RandomWalk
from killpoint.search.schedules.replay import FixedSchedule
from killpoint.search.simulated import Ask, SearchCall, carry_out
from killpoint.simulation.ending import Ending
from killpoint.simulation.environment import SimulatedEnvironment
from killpoint.simulation.programs.delivery import Delivery
from killpoint.simulation.programs.shared_end import Sharing
from killpoint.simulation.programs.wake_up import Waking
from killpoint.simulation.sockets.socket_library import Sockets
from killpoint.targets.protocol import QueueShape
from killpoint.targets.refengine.adapter import RefengineTarget
from killpoint.verdict import Violation

_SHAPE = QueueShape(readers=2, chunk_bytes=160, chunks=2)
_ONE = QueueShape(readers=1, chunk_bytes=160, chunks=2)


class Watched(RewindableRun):
    """Says of each run how it went."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.seen: list[tuple[Ending, Violation | None]] = []
        self.made = 0

    def __call__(self, chooser: Chooser) -> tuple[Violation | None, list[int], int]:
        violation, choices, steps = super().__call__(chooser)
        self.seen.append((choices, steps, violation))
        return violation, choices, steps

    def fresh(self, chooser: Chooser, *, recording: bool = False) -> Any:
        self.made += 1
        return super().fresh(chooser, recording=recording)


def _seen(play: Play, memory: Any, rewinding: bool) -> Watched:
    target = RefengineTarget()
    around = SimulatedEnvironment(memory, Sockets if play.sockets else None, threads=play.threads)
    around.is_own = target.is_own_code
    with target.simulated(around) as box:
        RewindableRun(box, around, play).fresh(FixedSchedule(()))
        watched = Watched(box, around, play, rewinding=rewinding)
        explore(Preemptions(1), watched, 40)
        explore(RandomWalk(40), watched, 40)
    return watched


@pytest.mark.parametrize(
    ("play", "memory"),
    [
        (Delivery(_SHAPE, 4), "view"),
        (Delivery(_SHAPE, 4), "relaxed"),
        (Waking(_SHAPE, [2.0, 0.0, 100.0]), "tso"),
        (Waking(_ONE, [2.0, 100.0], late=True), "sequential"),
        (Sharing(_ONE, 1, "send"), "sequential"),
        (Sharing(_ONE, 1, "receive"), "view"),
    ],
)
def test_what_is_put_back_is_as_good_as_new(play: Play, memory: str) -> None:
    again, anew = _seen(play, memory, True), _seen(play, memory, False)
    assert again.seen == anew.seen
    assert len(again.seen) > 60
    assert again.made < 10 < anew.made


class Beside:
    sent = 0


class Forgetful:
    """A queue that keeps something outside of its ends, and makes it anew with the queue."""

    def __init__(self, *, spoils: bool = True) -> None:
        self.beside, self.spoils = Beside(), spoils

    @contextmanager
    def simulated(self, environment: Any) -> Generator[Any]:
        self.around = environment
        yield self

    def make(self, shape: QueueShape) -> Any:
        del shape
        self.beside.sent = 0
        return self.around.create(32).buf

    def handle(self, end: Any) -> Any:
        return end

    def attach(self, handle: Any, rank: int) -> Any:
        del rank
        return handle

    def send(self, end: Any, obj: bytes, timeout: float | None) -> None:
        del timeout
        while end[0]:
            self.around.spin("room")
        self.beside.sent += 1
        bad = self.beside.sent > 4
        end[1:17] = b"?" * 16 if bad and self.spoils else obj
        end[0] = 1
        if bad:
            self.around.fence()
            end[20] = 1

    def receive(self, end: Any, timeout: float | None) -> bytes:
        del timeout
        while not end[0]:
            self.around.spin("a message")
        content = bytes(end[1:17])
        end[0] = 0
        return content


def test_what_a_target_keeps_elsewhere_convicts_nobody() -> None:
    play = Delivery(QueueShape(readers=1, chunk_bytes=80, chunks=1), 3)
    call = SearchCall(play, "sequential", [Ask("preemptions", 2, 1_000)])
    explored = carry_out(cast("Any", Forgetful()), call)
    assert explored.violation is None
    assert explored.doubt == ""
    assert explored.searches[0].complete


def test_a_run_that_would_differ_is_noticed_though_nothing_goes_wrong_in_it() -> None:
    target = Forgetful(spoils=False)
    around = SimulatedEnvironment("sequential")
    with target.simulated(around) as box:
        played = RewindableRun(box, around, Delivery(QueueShape(1, 80, 1), 3))
        with pytest.raises(NotRewindable, match="made anew"):
            explore(RandomWalk(200), played, 200)
