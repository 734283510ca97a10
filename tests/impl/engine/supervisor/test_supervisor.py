"""The supervisor: every part is started and told of the others, and all of it ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from refengine.engine.errors import EngineFailed
from refengine.engine.protocol import Close, ConnectCoordinator, Peer, Peers, Ready, ReplicaDown
from refengine.errors import PeerDied

from ...roles import leftovers
from ..housed import House, is_there


@pytest.fixture
def house() -> Iterator[Callable[..., House]]:
    made: list[House] = []

    def new(**given: Any) -> House:
        made.append(House(**given))
        return made[-1]

    yield new
    for each in made:
        each.close()


# -- the start ------------------------------------------------------------------------------------


def test_every_part_is_told_what_it_is_and_the_start_returns_once_all_serve(house: Any) -> None:
    made = house(data_parallel=2, prefill=1).start()
    births = {core.init.name: core.init for core in made.cores.all}
    told = {name: (init.rank, init.life, init.waves) for name, init in births.items()}
    assert told == {"core-0": (0, 1, True), "core-1": (1, 1, True), "prefill-0": (0, 1, False)}
    assert {init.settings for init in births.values()} == {made.settings}
    assert len({init.folder for init in births.values()}) == 3
    (coordinator,) = made.coordinators.all
    assert (coordinator.engines, coordinator.timeout) == (2, 15.0)
    pids = {name: made.cores[name].pid for name in births}
    assert made.supervisor.pids() == pids | {"coordinator": coordinator.pid}
    assert set(made.supervisor.restarts().values()) == {0}
    assert made.supervisor.alive
    for name, pid in pids.items():
        tracker = made.front_end.ask(lambda tracker, _, name=name: tracker.replicas[name])
        made.until(lambda tracker=tracker: tracker.serving)
        assert (tracker.pid, tracker.life) == (pid, 1)


def test_cores_are_told_of_each_other_and_of_the_coordinator(house: Any) -> None:
    made = house(data_parallel=2, prefill=1).start()
    votes = {rank: Peer(1, made.cores[f"core-{rank}"].ready.votes) for rank in range(2)}
    for name in ("core-0", "core-1"):
        core = made.cores[name]
        made.until(lambda core=core: core.told(ConnectCoordinator))
        made.until(lambda core=core: core.told(Peers)[-1:] == [Peers(votes)])
        assert core.told(ConnectCoordinator) == [
            ConnectCoordinator(1, made.coordinators.all[0].addresses)
        ]
    assert (
        made.cores["prefill-0"].told(Peers)
        == made.cores["prefill-0"].told(ConnectCoordinator)
        == []
    )


def test_alone_a_replica_has_no_coordinator_and_no_peers(house: Any) -> None:
    made = house().start()
    assert made.coordinators.all == []
    assert not made.cores["core-0"].init.waves
    assert made.supervisor.pids() == {"core-0": made.cores["core-0"].pid}
    made.kill("core-0")
    assert made.back("core-0").told(Peers) == []


def test_a_part_that_cannot_be_started_is_named_and_nothing_is_left(house: Any) -> None:
    made = house(data_parallel=2)
    made.cores.failures["core-1"] = OSError("no process")
    with pytest.raises(EngineFailed, match="core-1 cannot serve: no process") as failed:
        made.start()
    assert failed.value.part == "core-1"
    made.close()
    assert not is_there(made.cores["core-0"].pid)
    assert made.coordinators.all[0].closed


def test_a_coordinator_that_cannot_be_started_is_named(house: Any) -> None:
    made = house(data_parallel=2)
    made.coordinators.failure = PeerDied("the coordinator", 1, "its addresses")
    with pytest.raises(EngineFailed, match="coordinator cannot serve"):
        made.start()
    assert len(made.cores.all) == 2  # they come up while it is waited for


def test_a_supervisor_that_cannot_go_on_says_so_at_the_start(house: Any) -> None:
    made = house()
    made.cores.failures["core-0"] = RuntimeError("what is that")
    before = leftovers(os.getpid())
    with pytest.raises(EngineFailed, match="the supervisor cannot serve: what is that"):
        made.start()
    made.supervisor.close()
    assert leftovers(os.getpid()) == before


def test_one_that_ends_before_it_serves_is_named_with_its_cause(house: Any) -> None:
    made = house()
    made.cores.mute.add("core-0")
    made.front_end.start()
    errors: list[EngineFailed] = []

    def start() -> None:
        try:
            made.supervisor.start(made.front_end)
        except EngineFailed as error:
            errors.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    made.until(lambda: made.cores.all and made.cores["core-0"].pid)
    made.cores["core-0"].say(ReplicaDown("no device"))
    thread.join(5.0)
    assert str(errors[0]) == "core-0 cannot serve: has ended: no device"


def test_one_that_does_not_come_to_serve_in_time_is_named(house: Any) -> None:
    made = house(start_timeout=0.1)
    made.cores.mute.add("core-0")
    with pytest.raises(EngineFailed, match=r"core-0 .*did not come to serve in 0\.1 s"):
        made.start()


# -- the end --------------------------------------------------------------------------------------


def test_closed_every_part_is_asked_to_leave_and_nothing_is_left(house: Any) -> None:
    before = set(threading.enumerate())
    made = house(data_parallel=2)
    assert not made.supervisor.alive
    made.start()
    (thread,) = {t for t in set(threading.enumerate()) - before if "supervisor" in t.name}
    assert thread.daemon  # it keeps no process from ending
    made.supervisor.close()
    for core in made.cores.all:
        assert core.told(Close) == [Close()]
        assert not is_there(core.pid)
        assert not Path(core.init.folder).exists()
    assert made.coordinators.all[0].closed
    assert made.supervisor.pids() == {}
    assert not made.supervisor.alive
    made.supervisor.close()


def test_whoever_is_asked_to_leave_has_time_for_it(house: Any) -> None:
    made = house()
    made.cores.slow = True
    core = made.start().cores["core-0"]
    closing = threading.Thread(target=made.supervisor.close)
    closing.start()
    made.until(lambda: core.told(Close))
    core.say("now")
    made.until(lambda: core.told(str) == ["it has left"])
    closing.join(5.0)
    assert not is_there(core.pid)


def test_one_that_never_began_can_be_closed(house: Any) -> None:
    made = house()
    made.supervisor.close()
    assert not made.supervisor.alive


def test_a_supervisor_that_fails_ends_all_of_it(
    house: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = house().start()
    made.cores["core-0"].say(Ready("", "", ("no pid",)))  # type of a worker's number
    made.until(lambda: not made.supervisor.alive)
    assert "the supervisor has failed" in caplog.messages
    assert made.front_end.closed
    made.until(lambda: not is_there(made.cores["core-0"].pid))


def test_it_is_not_alive_while_it_does_not_turn(house: Any) -> None:
    made = house()
    made.still = 100.0
    made.cores.held.clear()
    made.front_end.start()
    starting = threading.Thread(target=made.supervisor.start, args=(made.front_end,))
    starting.start()
    made.until(lambda: made.supervisor.alive)
    made.ahead = 16.5  # a coordinator may take 15 to start
    assert made.supervisor.alive
    made.ahead = 17.0
    assert not made.supervisor.alive
    made.ahead = 0.0
    made.cores.held.set()
    starting.join(5.0)
    assert made.supervisor.alive
