"""A process that the target started speaks the runner's language, and stands where it is told."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from killpoint.history.log import Log
from killpoint.runner.points.interruption import InjectedError
from killpoint.runner.processes.target_agent import TargetAgent
from killpoint.runner.protocol import Arm, Channel, Hello, Reached, Release
from killpoint.scenario import Point

COMPUTING = Point("work", name="computing")


class Stand:
    """The runner's end, and a presence that was let in with one point to stand at."""

    def __init__(self, folder: Path, arms: list[Arm]) -> None:
        self.door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.door.bind(str(folder / "d"))
        self.door.listen()
        self.log = Log(folder / "director.jsonl", "director")
        made: list[TargetAgent] = []
        thread = threading.Thread(target=lambda: made.append(TargetAgent("worker-3", folder)))
        thread.start()
        self.director = Channel(self.door.accept()[0])
        self.director.sock.settimeout(10)
        self.hello = self.director.get()
        for packet in (*arms, Release()):
            self.director.put(packet)
        thread.join(10)
        self.presence = made[0]

    def close(self) -> None:
        self.presence.drop()
        self.presence.log.close()
        self.log.close()
        self.director.close()
        self.door.close()


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    made = Stand(tmp_path, [Arm(7, COMPUTING), Arm(8, Point("serve", line=4, nth=1))])
    yield made
    made.close()


def meets(stand: Stand, arm_id: int, action: str) -> None:
    """The runner's half of one point."""
    assert stand.director.get() == Reached(arm_id, "computing")
    stand.director.put(Release(action))


def test_it_says_who_it_is_and_hears_what_to_stand_at(stand: Stand) -> None:
    assert stand.hello == Hello("worker-3", os.getpid())
    assert stand.presence.due("work", "loading") is None
    arm = stand.presence.due("work", "computing")
    assert arm is not None
    assert (arm.id, stand.presence.due("work", "computing")) == (7, None)
    assert stand.presence.due("serve") is None, "it is the second time that is meant"
    again = stand.presence.due("serve")
    assert again is not None
    assert (again.id, again.point.line) == (8, 4)


def test_a_point_that_is_declared_later_is_known_at_the_next_phase(stand: Stand) -> None:
    stand.director.put(Arm(9, Point("work", name="native"), stop=True))
    arm = stand.presence.due("work", "native")
    assert arm is not None
    assert arm.stop


def test_it_stands_until_it_is_told_how_to_go_on(stand: Stand) -> None:
    arm = stand.presence.due("work", "computing")
    assert arm is not None
    runner = threading.Thread(target=meets, args=(stand, 7, "raise"))
    runner.start()
    with pytest.raises(InjectedError, match="computing"):
        stand.presence.meet(arm, "computing")
    runner.join(10)


def test_a_word_that_nobody_waits_for_any_more_lets_nobody_go(stand: Stand) -> None:
    arm = stand.presence.due("work", "computing")
    assert arm is not None
    stand.presence.meet(arm, "computing", inside=lambda: False)  # it came back by itself
    assert stand.director.get() == Reached(7, "computing")
    stand.director.put(Release("raise"))  # too late
    runner = threading.Thread(target=meets, args=(stand, 7, "go"))
    runner.start()
    stand.presence.meet(arm, "computing")
    runner.join(10)


def test_a_director_that_is_gone_keeps_nobody(stand: Stand) -> None:
    arm = stand.presence.due("work", "computing")
    assert arm is not None
    stand.director.close()
    stand.presence.meet(arm, "computing")
