"""The supervisor: who dies, hangs or is silent is replaced, and the others are told."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest

from refengine.engine.front_end.request_tracker import DropReplica
from refengine.engine.front_end.streams import Stream
from refengine.engine.protocol import (
    ConnectCoordinator,
    KvLinkResult,
    LinkKv,
    Peer,
    Peers,
    ReplicaDown,
    UnlinkKv,
)
from refengine.engine.supervisor import supervisor
from refengine.engine.supervisor.supervisor import COORDINATOR

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


# -- deaths ---------------------------------------------------------------------------------------


def test_a_core_that_dies_is_started_again_and_the_others_are_told(
    house: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = house(data_parallel=2).start()
    other, dead = made.cores["core-0"], made.cores["core-1"]
    made.until(lambda: other.told(ConnectCoordinator))
    with caplog.at_level(logging.WARNING):
        made.kill("core-1")
        new = made.back("core-1")
    mine = Peer(1, other.ready.votes)
    told = [Peers({0: mine}), Peers({0: mine, 1: Peer(2, new.ready.votes)})]
    made.until(lambda: other.told(Peers)[-2:] == told)
    made.until(lambda: new.told(ConnectCoordinator))
    assert made.supervisor.restarts() == {"core-0": 0, "core-1": 1, "coordinator": 0}
    assert not Path(dead.init.folder).exists()
    assert any("core-1" in m and "SIGKILL" in m and "again" in m for m in caplog.messages)
    made.until(lambda: made.front_end.ask(lambda tracker, _: tracker.replicas["core-1"].life) == 2)


def test_one_that_says_that_it_ends_is_ended(house: Any) -> None:
    made = house().start()
    old = made.cores["core-0"]
    old.say(ReplicaDown("its workers failed"))
    made.back("core-0")
    assert not is_there(old.pid)


def test_who_is_evicted_is_ended_in_that_life_alone(
    house: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = house().start()
    old = made.cores["core-0"]
    with caplog.at_level(logging.WARNING):
        made.supervisor.drop_replica(DropReplica("core-0", 2, "another life"))
        made.supervisor.drop_replica(DropReplica("core-0", 1, "it hangs"))
        made.back("core-0")
    assert caplog.messages == ["core-0 was ended, since it hangs; it is started again"]
    assert not is_there(old.pid)
    made.supervisor.drop_replica(DropReplica("core-0", 1, "it hung"))
    made.supervisor.drop_replica(DropReplica("core-7", 1, "who is that"))
    made.kill("core-0")
    made.back("core-0", 3)
    assert len(made.cores.all) == 3


def test_an_eviction_is_obeyed_at_once(house: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_TURN", 60.0)  # else it looks anyway
    made = house().start()
    for life in range(1, 5):
        made.supervisor.drop_replica(DropReplica("core-0", life, "it hangs"))
        made.back("core-0", life + 1)


def test_one_that_cannot_be_started_again_is_tried_soon_and_then_later(
    house: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_TURN", 60.0)
    made = house().start()
    made.cores.failures["core-0"] = OSError("no process")
    made.kill("core-0")
    before = time.monotonic()
    made.until(lambda: made.cores.tries == 4)
    assert time.monotonic() - before > 0.7  # a quarter of a second, and then a half
    made.cores.failures.clear()
    made.until(lambda: made.supervisor.pids())


def test_one_that_comes_too_late_to_serve_again_is_ended(house: Any) -> None:
    made = house().start()
    made.cores.mute.add("core-0")
    made.kill("core-0")
    late = made.until(lambda: [c for c in made.cores.lives("core-0")[1:] if c.pid])[0]
    made.cores.mute.clear()
    made.ahead = 9.5
    made.supervisor.drop_replica(DropReplica("nobody", 1, "look at the time"))
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
    made.until(lambda: made.state("core-0") == "dead")
    assert len(made.cores.all) == 1
    assert str(made.supervisor.failure).startswith("core-0 cannot serve: it was killed")


def test_as_long_as_one_that_decodes_is_left_nothing_has_failed(house: Any) -> None:
    made = house(data_parallel=2, restart=False).start()
    made.kill("core-0")
    made.until(lambda: made.state("core-0") == "dead")
    assert made.supervisor.failure is None


# -- the coordinator ------------------------------------------------------------------------------


def test_a_coordinator_that_dies_is_replaced_and_the_cores_meet_the_new_one(house: Any) -> None:
    made = house(data_parallel=2).start()
    (old,) = made.coordinators.all
    os.kill(old.pid, signal.SIGKILL)
    made.until(lambda: len(made.coordinators.all) == 2)
    new = made.coordinators.all[1]
    for name in ("core-0", "core-1"):
        core = made.cores[name]
        made.until(
            lambda core=core: (
                core.told(ConnectCoordinator)[-1:] == [ConnectCoordinator(2, new.addresses)]
            )
        )
    assert old.closed
    assert made.supervisor.pids()["coordinator"] == new.pid
    assert made.supervisor.restarts()["coordinator"] == 1
    assert len(made.cores.all) == 2


def test_a_coordinator_that_is_silent_is_replaced_even_if_it_is_stopped(
    house: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(supervisor, "wait", lambda fds, s: waits.append(s) or wait(fds, s))
    made = house(data_parallel=2).start()
    (old,) = made.coordinators.all
    made.until(lambda: made.front_end.coordinator_silent_for() > 0)
    os.kill(old.pid, signal.SIGSTOP)
    made.still = time.monotonic()
    made.until(lambda: made.front_end._looked == made.still)
    made.ahead = 3.5 - made.front_end.coordinator_silent_for()
    for life in (2, 3):  # it has looked in between
        made.kill("core-1")
        made.back("core-1", life)
    assert len(made.coordinators.all) == 1
    made.ahead += 1.0  # silent for 4.5
    looks = made.looks
    made.until(lambda: len(made.coordinators.all) == 2)
    assert max(waits) <= 1.0  # it looks once a second, whatever happens
    assert made.looks - looks < 30  # and no more often
    assert old.closed
    assert made.front_end.coordinator_silent_for() < 3.0


def test_a_coordinator_that_speaks_is_kept_though_nobody_has_listened_for_a_while(
    house: Any,
) -> None:
    made = house(data_parallel=2).start()
    held, there = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        there.set()
        held.wait(10.0)

    stream = Stream("a", lambda: None)
    made.front_end.open(stream, lambda tracker, now: tracker.submit("a", (1,), 4, now))
    stream.subscribe(hold)
    made.front_end.do(lambda tracker, _: tracker.cancel("a"))
    try:
        assert there.wait(5.0)
        made.ahead = 5.0  # as after a stop of the whole process: who looks first is not decided
        looks = made.looks
        for turns in (4, 8, 12):
            made.supervisor.drop_replica(DropReplica("nobody", 1, "look"))
            made.until(lambda turns=turns: made.looks >= looks + turns)
    finally:
        held.set()
    assert made.supervisor.restarts()["coordinator"] == 0
    assert COORDINATOR in made.supervisor.restart_policy.serving()


def test_without_a_coordinator_that_comes_back_no_core_stays(house: Any) -> None:
    made = house(data_parallel=2, restart=False).start()
    os.kill(made.coordinators.all[0].pid, signal.SIGKILL)
    made.until(lambda: made.supervisor.pids() == {})
    made.until(
        lambda: not made.front_end.ask(lambda tracker, now: tracker.health(now, alive=True)).ready
    )
    made.until(
        lambda: made.front_end.coordinator_silent_for() == 0.0
    )  # it has left the one that is gone
    assert str(made.supervisor.failure).startswith("coordinator cannot serve")


# -- KV links -------------------------------------------------------------------------------------


def test_prefill_and_decode_replicas_are_linked_before_the_start_returns(house: Any) -> None:
    made = house(prefill=1, tensor_parallel=2).start()
    assert made.prefills() == "prefill-0"
    ends = [made.cores[name].told(LinkKv)[0] for name in ("prefill-0", "core-0")]
    assert [each.end for each in ends] == [0, 1]
    assert ends[0].link == ends[1].link
    assert ends[0].ports == ends[1].ports
    assert ends[0].keys == ends[1].keys
    assert len(set(ends[0].ports)) == len(set(ends[0].keys)) == 2


def test_a_link_falls_with_one_end_and_is_made_anew_with_the_next(house: Any) -> None:
    made = house(prefill=1).start()
    (join,) = made.cores["core-0"].told(LinkKv)
    made.cores.held.clear()  # or the next one may be linked before anything is looked at
    made.kill("prefill-0")
    made.until(lambda: made.cores["core-0"].told(UnlinkKv) == [UnlinkKv(join.link)])
    assert made.prefills() == "core-0"
    made.cores.held.set()
    made.back("prefill-0")
    made.until(lambda: len(made.cores["core-0"].told(LinkKv)) == 2)
    made.until(lambda: made.prefills() == "prefill-0")


def test_an_end_that_could_not_be_made_is_tried_again(house: Any) -> None:
    made = house(prefill=1).start()
    (join,) = made.cores["core-0"].told(LinkKv)
    made.cores["core-0"].say(KvLinkResult(join.link, "no port"))
    made.until(lambda: len(made.cores["prefill-0"].told(LinkKv)) == 2)
    assert made.cores["prefill-0"].told(UnlinkKv) == [UnlinkKv(join.link)]
