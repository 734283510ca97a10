"""The supervisor: every part is started, watched, told of the others, and started again."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from refengine.engine.desk import Desk
from refengine.engine.errors import EngineFailed
from refengine.engine.front_end import Evict, FrontEnd, Send
from refengine.engine.messages import Close, Down, Join, Joined, Meet, Part, Peer, Peers, Ready
from refengine.engine.settings import EngineSettings
from refengine.engine.supervisor import Supervisor
from refengine.errors import PeerDied

from ..roles import until
from .relayed import Coordinators, Core, Cores


class House:
    """A supervisor, its desk, and what it has started."""

    def __init__(self, **given: Any) -> None:
        self.settings = EngineSettings(**({"start_timeout": 9.0} | given))
        self.looks = 0
        """How often the supervisor has looked at the clock."""
        self.still: float | None = None
        """The time, while it stands still."""
        self.ahead = 0.0
        """Seconds by which its clock is ahead of the time."""
        self.cores, self.coordinators = Cores(), Coordinators()
        self.supervisor = Supervisor(
            self.settings,
            self.look,
            replica=self.cores.new,
            coordinator=self.coordinators.new,
        )
        self.desk = Desk(FrontEnd(self.settings), self.supervisor.evict, self.clock)

    def look(self) -> float:
        self.looks += 1
        return self.clock()

    def clock(self) -> float:
        return (time.monotonic() if self.still is None else self.still) + self.ahead

    def start(self) -> House:
        self.desk.start()
        self.supervisor.start(self.desk)
        return self

    def until(self, condition: Callable[[], Any]) -> Any:
        return until(condition, 5.0)

    def back(self, name: str, life: int = 2) -> Core:
        """Once it serves again."""
        self.until(lambda: self.supervisor.roster.parts[name].life == life)
        self.until(lambda: self.supervisor.roster.parts[name].serves)
        return self.cores[name]

    def kill(self, name: str) -> Core:
        core = self.cores[name]
        os.kill(core.pid, signal.SIGKILL)
        return core

    def prefills(self) -> str:
        """Which replica prefills a request: another one than decodes it, if they are linked."""

        def place(book: FrontEnd, now: float) -> str:
            deeds = book.submit("a", (1,), 4, now)
            book.cancel("a")
            return next(deed.name for deed in deeds if isinstance(deed, Send))

        return self.desk.ask(place)

    def close(self) -> None:
        self.desk.close()
        self.supervisor.close()


@pytest.fixture
def house() -> Iterator[Callable[..., House]]:
    made: list[House] = []

    def new(**given: Any) -> House:
        made.append(House(**given))
        return made[-1]

    yield new
    for each in made:
        each.close()


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


# -- the start ------------------------------------------------------------------------------------


def test_every_part_is_told_what_it_is_and_the_start_returns_once_all_serve(house: Any) -> None:
    made = house(data_parallel=2, prefill=1).start()
    births = {core.birth.name: core.birth for core in made.cores.all}
    told = {name: (birth.rank, birth.life, birth.waves) for name, birth in births.items()}
    assert told == {"core-0": (0, 1, True), "core-1": (1, 1, True), "prefill-0": (0, 1, False)}
    assert {birth.parent for birth in births.values()} == {os.getpid()}
    assert {birth.settings for birth in births.values()} == {made.settings}
    assert len({birth.folder for birth in births.values()}) == 3
    (coordinator,) = made.coordinators.all
    assert (coordinator.engines, coordinator.timeout) == (2, 15.0)
    pids = {name: made.cores[name].pid for name in births}
    assert made.supervisor.pids() == pids | {"coordinator": coordinator.pid}
    assert set(made.supervisor.restarts().values()) == {0}
    assert made.supervisor.alive
    for name, pid in pids.items():
        book = made.desk.ask(lambda book, _, name=name: book.replicas[name])
        made.until(lambda book=book: book.there)
        assert (book.pid, book.life) == (pid, 1)


def test_cores_are_told_of_each_other_and_of_the_coordinator(house: Any) -> None:
    made = house(data_parallel=2, prefill=1).start()
    votes = {rank: Peer(1, made.cores[f"core-{rank}"].ready.votes) for rank in range(2)}
    for name in ("core-0", "core-1"):
        core = made.cores[name]
        made.until(lambda core=core: core.told(Meet))
        made.until(lambda core=core: core.told(Peers)[-1:] == [Peers(votes)])
        assert core.told(Meet) == [Meet(1, made.coordinators.all[0].addresses)]
    assert made.cores["prefill-0"].told(Peers) == made.cores["prefill-0"].told(Meet) == []


def test_alone_a_replica_has_no_coordinator_and_no_peers(house: Any) -> None:
    made = house().start()
    assert made.coordinators.all == []
    assert not made.cores["core-0"].birth.waves
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
    with pytest.raises(EngineFailed, match="the supervisor cannot serve: what is that"):
        made.start()


def test_one_that_ends_before_it_serves_is_named_with_its_cause(house: Any) -> None:
    made = house()
    made.cores.mute.add("core-0")
    made.desk.start()
    errors: list[EngineFailed] = []

    def start() -> None:
        try:
            made.supervisor.start(made.desk)
        except EngineFailed as error:
            errors.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    made.until(lambda: made.cores.all and made.cores["core-0"].pid)
    made.cores["core-0"].say(Down("no device"))
    thread.join(5.0)
    assert str(errors[0]) == "core-0 cannot serve: has ended: no device"


def test_one_that_does_not_come_to_serve_in_time_is_named(house: Any) -> None:
    made = house(start_timeout=0.1)
    made.cores.mute.add("core-0")
    with pytest.raises(EngineFailed, match=r"core-0 .*did not come to serve in 0\.1 s"):
        made.start()


# -- deaths ---------------------------------------------------------------------------------------


def test_a_core_that_dies_is_started_again_and_the_others_are_told(
    house: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = house(data_parallel=2).start()
    other, dead = made.cores["core-0"], made.cores["core-1"]
    made.until(lambda: other.told(Meet))
    with caplog.at_level(logging.WARNING):
        made.kill("core-1")
        new = made.back("core-1")
    mine = Peer(1, other.ready.votes)
    told = [Peers({0: mine}), Peers({0: mine, 1: Peer(2, new.ready.votes)})]
    made.until(lambda: other.told(Peers)[-2:] == told)
    made.until(lambda: new.told(Meet))
    assert made.supervisor.restarts() == {"core-0": 0, "core-1": 1, "coordinator": 0}
    assert not Path(dead.birth.folder).exists()
    assert any("core-1" in m and "SIGKILL" in m and "again" in m for m in caplog.messages)
    made.until(lambda: made.desk.ask(lambda book, _: book.replicas["core-1"].life) == 2)


def test_one_that_says_that_it_ends_is_ended(house: Any) -> None:
    made = house().start()
    old = made.cores["core-0"]
    old.say(Down("its workers failed"))
    made.back("core-0")
    assert not is_there(old.pid)


def test_who_is_evicted_is_ended_in_that_life_alone(
    house: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = house().start()
    old = made.cores["core-0"]
    with caplog.at_level(logging.WARNING):
        made.supervisor.evict(Evict("core-0", 2, "another life"))
        made.supervisor.evict(Evict("core-0", 1, "it hangs"))
        made.back("core-0")
    assert caplog.messages == ["core-0 was ended, since it hangs; it is started again"]
    assert not is_there(old.pid)
    made.supervisor.evict(Evict("core-0", 1, "it hung"))
    made.supervisor.evict(Evict("core-7", 1, "who is that"))
    made.kill("core-0")
    made.back("core-0", 3)
    assert len(made.cores.all) == 3


def test_an_eviction_is_obeyed_at_once(house: Any) -> None:
    made = house().start()
    before = time.monotonic()
    for life in range(1, 5):
        made.supervisor.evict(Evict("core-0", life, "it hangs"))
        made.back("core-0", life + 1)
    assert time.monotonic() - before < 3.0  # not when the thread looks anyway


def test_one_that_cannot_be_started_again_is_tried_soon_and_then_later(house: Any) -> None:
    made = house().start()
    made.cores.failures["core-0"] = OSError("no process")
    made.kill("core-0")
    before = time.monotonic()
    made.until(lambda: made.cores.tries == 4)
    assert 0.7 < time.monotonic() - before < 1.9  # a quarter of a second, and then a half
    made.cores.failures.clear()
    made.until(lambda: made.supervisor.pids())


def test_one_that_comes_too_late_to_serve_again_is_ended(house: Any) -> None:
    made = house().start()
    made.cores.mute.add("core-0")
    made.kill("core-0")
    late = made.until(lambda: [c for c in made.cores.lives("core-0")[1:] if c.pid])[0]
    made.cores.mute.clear()
    made.ahead = 9.5
    made.supervisor.evict(Evict("nobody", 1, "look at the time"))
    made.until(lambda: len(made.cores.all) == 3)
    made.until(lambda: not is_there(late.pid))


def test_without_restarts_what_is_gone_stays_away(
    house: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = house(restart=False).start()
    with caplog.at_level(logging.WARNING):
        made.kill("core-0")
        made.until(lambda: made.supervisor.pids() == {})
        made.until(lambda: any("it stays away" in each for each in caplog.messages))
    made.until(lambda: made.desk.ask(lambda book, _: not book.replicas["core-0"].coming))
    assert len(made.cores.all) == 1


# -- the coordinator ------------------------------------------------------------------------------


def test_a_coordinator_that_dies_is_replaced_and_the_cores_meet_the_new_one(house: Any) -> None:
    made = house(data_parallel=2).start()
    (old,) = made.coordinators.all
    os.kill(old.pid, signal.SIGKILL)
    made.until(lambda: len(made.coordinators.all) == 2)
    new = made.coordinators.all[1]
    for name in ("core-0", "core-1"):
        core = made.cores[name]
        made.until(lambda core=core: core.told(Meet)[-1:] == [Meet(2, new.addresses)])
    assert old.closed
    assert made.supervisor.pids()["coordinator"] == new.pid
    assert made.supervisor.restarts()["coordinator"] == 1
    assert len(made.cores.all) == 2


def test_a_coordinator_that_is_silent_is_replaced_even_if_it_is_stopped(house: Any) -> None:
    made = house(data_parallel=2).start()
    (old,) = made.coordinators.all
    made.until(lambda: made.desk.quiet() > 0)
    os.kill(old.pid, signal.SIGSTOP)
    made.still = time.monotonic()
    made.ahead = 3.5 - made.desk.quiet()
    for life in (2, 3):  # it has looked in between
        made.kill("core-1")
        made.back("core-1", life)
    assert len(made.coordinators.all) == 1
    made.ahead += 1.0  # silent for 4.5
    before, looks = time.monotonic(), made.looks
    made.until(lambda: len(made.coordinators.all) == 2)
    assert time.monotonic() - before < 1.8  # it looks once a second, whatever happens
    assert made.looks - looks < 30  # and no more often
    assert old.closed
    assert made.desk.quiet() < 3.0


def test_without_a_coordinator_that_comes_back_no_core_stays(house: Any) -> None:
    made = house(data_parallel=2, restart=False).start()
    os.kill(made.coordinators.all[0].pid, signal.SIGKILL)
    made.until(lambda: made.supervisor.pids() == {})
    made.until(lambda: not made.desk.ask(lambda book, now: book.health(now, alive=True)).ready)
    made.until(lambda: made.desk.quiet() == 0.0)  # it has left the one that is gone


# -- KV links -------------------------------------------------------------------------------------


def test_prefill_and_decode_replicas_are_linked_before_the_start_returns(house: Any) -> None:
    made = house(prefill=1, tensor_parallel=2).start()
    assert made.prefills() == "prefill-0"
    ends = [made.cores[name].told(Join)[0] for name in ("prefill-0", "core-0")]
    assert [each.end for each in ends] == [0, 1]
    assert ends[0].link == ends[1].link
    assert ends[0].ports == ends[1].ports
    assert ends[0].keys == ends[1].keys
    assert len(set(ends[0].ports)) == len(set(ends[0].keys)) == 2


def test_a_link_falls_with_one_end_and_is_made_anew_with_the_next(house: Any) -> None:
    made = house(prefill=1).start()
    (join,) = made.cores["core-0"].told(Join)
    made.kill("prefill-0")
    made.until(lambda: made.cores["core-0"].told(Part) == [Part(join.link)])
    assert made.prefills() == "core-0"
    made.back("prefill-0")
    made.until(lambda: len(made.cores["core-0"].told(Join)) == 2)
    made.until(lambda: made.prefills() == "prefill-0")


def test_an_end_that_could_not_be_made_is_tried_again(house: Any) -> None:
    made = house(prefill=1).start()
    (join,) = made.cores["core-0"].told(Join)
    made.cores["core-0"].say(Joined(join.link, "no port"))
    made.until(lambda: len(made.cores["prefill-0"].told(Join)) == 2)
    assert made.cores["prefill-0"].told(Part) == [Part(join.link)]


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
        assert not Path(core.birth.folder).exists()
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
    assert made.desk.closed
    made.until(lambda: not is_there(made.cores["core-0"].pid))


def test_it_is_not_alive_while_it_does_not_turn(house: Any) -> None:
    made = house()
    made.still = 100.0
    made.cores.held.clear()
    made.desk.start()
    starting = threading.Thread(target=made.supervisor.start, args=(made.desk,))
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
