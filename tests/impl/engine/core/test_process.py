"""A core's shell: what it hears goes to the core, and what that wants is carried out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import zmq

from refengine.coordinator import Report, Start
from refengine.engine import protocol
from refengine.engine.protocol import (
    AddRequest,
    Cancel,
    Close,
    ConnectCoordinator,
    Heartbeat,
    KvLinkResult,
    LinkKv,
    Outputs,
    Peer,
    Peers,
    Refused,
    ReplicaDown,
    Request,
    UnlinkKv,
    Vote,
)

from ...mutated_frames import FATAL
from ...roles import until
from ..hosted import Hosted, PaperCoordinator, modes, vote
from ..pools import NOBODY, TOKEN, Pool


class Cores:
    """Makes them, and closes those that are left."""

    def __init__(self) -> None:
        self.made: list[Hosted] = []

    def __call__(self, *args: Any, **given: Any) -> Hosted:
        """One that serves."""
        return self.new(*args, **given).start()

    def new(self, *args: Any, **given: Any) -> Hosted:
        self.made.append(Hosted(*args, **given))
        return self.made[-1]


@pytest.fixture
def core() -> Iterator[Cores]:
    cores = Cores()
    yield cores
    for each in cores.made:
        each.close()


def begin(name: str, tokens: int = 3, prompt: tuple[int, ...] = (1, 2)) -> AddRequest:
    return AddRequest(Request(name, prompt, tokens))


# -- alone ----------------------------------------------------------------------------------------


def test_it_tells_where_it_can_be_reached_once_its_workers_are_there(core: Cores) -> None:
    one = core(Pool((NOBODY, NOBODY + 1)))
    assert one.ready.workers == (NOBODY, NOBODY + 1)
    paths = [f"ipc://{one.folder}/{name}" for name in ("front", "votes")]
    assert [one.ready.front, one.ready.votes] == paths
    assert modes(one.folder) == {"front": 0o600, "votes": 0o600}


def test_requests_are_served_side_by_side(core: Cores) -> None:
    one = core()
    one.ask(begin("a", 3), begin("b", 5))
    assert one.made("b") == ((TOKEN,) * 5, "length")
    beat = one.beat(lambda beat: beat.taken == 2 and not beat.running)
    assert beat.steps == one.pool.methods().count("execute_model") < 8


def test_a_front_end_that_does_not_listen_holds_no_step_up(core: Cores) -> None:
    one = core()
    deaf = one.front
    deaf.setsockopt(zmq.RCVHWM, 1)  # for the next connection
    deaf.disconnect(one.ready.front)
    deaf.connect(one.ready.front)
    one.ask(begin("a", 800))
    until(lambda: one.pool.methods().count("execute_model") == 800, 5.0)


def test_what_can_never_be_served_is_refused(core: Cores) -> None:
    one = core(blocks=1, block_size=4)
    one.ask(begin("a", prompt=(1,) * 9))
    assert one.answer(Refused).id == "a"


def test_what_nobody_wants_any_more_ends(core: Cores) -> None:
    one = core()
    one.ask(begin("a", 4000))
    one.answer(Outputs)
    one.ask(Cancel("a"))
    assert one.made("a")[1] == "cancelled"


def test_of_one_socket_only_so_much_is_heard_before_the_others_have_their_turn(
    core: Cores,
) -> None:
    one = core.new()
    front = one.sockets.connect(zmq.DEALER, f"ipc://{one.folder}/front")
    for number in range(65):
        front.send(protocol.encode(begin(f"r{number}", 1)))
    one.front = front
    one.pool.held.clear()  # before the first step ends, all is heard that is to be
    one.thread.start()
    seen = [0]
    while seen[-1] < 65:
        seen.append(one.answer(Heartbeat).taken)
    assert max(after - before for before, after in pairwise(seen)) <= 64


def test_a_kv_link_is_made_and_unmade_at_every_worker(core: Cores) -> None:
    one = core()
    one.say(LinkKv("l", (5, 6), (b"x", b"y"), 1))
    assert one.hear() == KvLinkResult("l")
    one.pool.raises["kv_link"] = OSError("no port")
    one.say(LinkKv("m", (7,), (b"z",), 0))
    assert one.hear() == KvLinkResult("m", "OSError: no port")
    one.say(UnlinkKv("l"))
    until(lambda: "kv_unlink" in one.pool.methods(), 5.0)
    one.say(Close())
    assert one.hear() == ReplicaDown("it was told to close")
    assert one.pool.calls[1:] == [
        ("kv_link", ("l", "127.0.0.1", (5, 6), 1, (b"x", b"y"))),
        ("kv_link", ("m", "127.0.0.1", (7,), 0, (b"z",))),
        ("kv_unlink", ("l",)),
    ]


# -- the end --------------------------------------------------------------------------------------


def test_told_to_close_it_ends_its_workers_and_leaves_nothing(core: Cores) -> None:
    one = core()
    one.say(Close())
    assert one.hear() == ReplicaDown("it was told to close")
    one.thread.join(5.0)
    assert one.pool.ended
    assert not one.folder.exists()


@pytest.mark.parametrize("method", ["start", "execute_model"])
def test_when_its_workers_fail_it_says_so_and_ends(method: str, core: Cores) -> None:
    pool = Pool()
    pool.raises[method] = OSError("no more")
    one = core.new(pool) if method == "start" else core(pool)
    if method == "start":
        one.thread.start()
    else:
        one.ask(begin("a"))
    assert one.hear() == ReplicaDown("OSError: no more")
    one.thread.join(5.0)
    assert not one.folder.exists()


def test_of_several_failures_the_first_is_told(core: Cores) -> None:
    one = core()
    for which in ("first", "second"):
        one.pool.raises["health"] = OSError(which)
        one.pool.failed()
    assert one.hear() == ReplicaDown("OSError: first")


@pytest.mark.parametrize("frame", [b"nonsense", *FATAL])
def test_a_message_that_is_none_is_dropped_alone(frame: bytes, core: Cores) -> None:
    one = core()
    votes: Any = one.sockets.connect(zmq.PUSH, one.ready.votes)
    one.front.send(frame)
    votes.send(frame)
    one.ask(AddRequest(Request("after it", (1, 2), 1)))
    assert one.made("after it")


# -- signs of life --------------------------------------------------------------------------------


def test_it_gives_a_sign_of_life_every_quarter_of_a_second(core: Cores) -> None:
    now, looks = [100.0], [0]

    def clock() -> float:
        looks[0] += 1
        return now[0]

    one = core(clock=clock)
    one.ask(begin("a"))
    one.made("a")
    idle = one.beat(lambda beat: beat.steps > 0 and beat.running == 0)
    assert (idle.waiting, idle.busy) == (0, 0.0)
    for _ in range(3):
        now[0] += 0.24
        before = looks[0]
        until(lambda before=before: looks[0] > before + 9)  # it has turned, for nothing
        assert not one.front.poll(0)
        now[0] += 0.02
        assert one.answer(Heartbeat) == idle


def test_it_does_not_turn_for_nothing(core: Cores) -> None:
    looks = [0]

    def clock() -> float:
        looks[0] += 1
        return time.monotonic()

    one = core(clock=clock)
    one.ask(begin("a"))
    one.made("a")
    one.answer(Heartbeat)
    before = looks[0]
    one.answer(Heartbeat)
    assert looks[0] - before < 30


def test_a_load_that_changes_is_told_at_once_and_how_long_a_step_takes(core: Cores) -> None:
    now = [100.0]
    one = core(clock=lambda: now[0])
    one.pool.held.clear()
    one.ask(begin("a"))
    beat = one.beat(lambda beat: beat.taken == 1)  # though no time passes
    assert (beat.waiting + beat.running, beat.busy) == (1, 0.0)
    now[0] = 103.0
    beat = one.beat(lambda beat: beat.busy > 0)
    assert (beat.busy, beat.waits_for) == (3.0, "its workers")
    one.pool.held.set()
    assert one.beat(lambda beat: beat.running == 0).busy == 0.0


# -- with others ----------------------------------------------------------------------------------


def begun(core: Cores, **given: Any) -> tuple[Hosted, PaperCoordinator, Any]:
    """Rank 0 of two, in the first wave; the test is the coordinator, and the other rank."""
    one = core(waves=True, **given)
    coordinator = PaperCoordinator(one.sockets)
    other, address = one.sockets.bind(zmq.PULL, "other")
    one.say(Peers({0: Peer(1, one.ready.votes), 1: Peer(1, address)}))
    one.say(ConnectCoordinator(1, coordinator.addresses))
    coordinator.come(0)
    return one, coordinator, other


def test_it_asks_for_a_wave_and_steps_once_one_has_begun(core: Cores) -> None:
    one, coordinator, other = begun(core)
    one.ask(begin("a", 1))
    assert coordinator.report(lambda report: report.work) == Report(0, wants=0, work=True)
    assert "execute_model" not in one.pool.methods()
    coordinator.publish(Start(0, (0, 1)))
    assert vote(other) == Vote(1, 0, 0, 0, 1, False)
    assert one.made("a") == ((TOKEN,), "length")
    mine = one.sockets.connect(zmq.PUSH, one.ready.votes)
    mine.send(protocol.encode(Vote(1, 0, 0, 1, 1, False)))
    assert coordinator.report(lambda report: report.done is not None).done == 0


def test_it_steps_without_requests_while_others_have_some(core: Cores) -> None:
    one, coordinator, other = begun(core)
    coordinator.publish(Start(0, (0, 1)))
    mine = one.sockets.connect(zmq.PUSH, one.ready.votes)
    for step in range(3):
        assert vote(other).step == step
        mine.send(protocol.encode(Vote(1, 0, step, 1, 1, True)))
    assert vote(other).step == 3
    assert one.pool.methods() == ["start", *["dummy"] * 4]


def test_its_load_is_told_to_the_coordinator_with_each_sign_of_life(core: Cores) -> None:
    one, coordinator, _ = begun(core)
    assert coordinator.report(lambda report: report.counts).counts == (0, 0)
    one.ask(begin("a"))
    assert coordinator.report(lambda report: report.counts != (0, 0)).rank == 0


def test_votes_go_to_the_peers_that_are_there(core: Cores) -> None:
    one, coordinator, other = begun(core, step_timeout=0.2)
    second, address = one.sockets.bind(zmq.PULL, "second")
    one.say(Peers({0: Peer(1, one.ready.votes), 1: Peer(2, address)}))
    one.say(ConnectCoordinator(2, coordinator.addresses))
    coordinator.come(0)
    coordinator.publish(Start(0, (0, 1)))
    assert vote(second).era == 2
    assert not other.poll(0)
    # One that votes no more is given up after the time of a step.
    assert coordinator.report(lambda report: report.broke is not None).lost == (1,)
    one.say(Peers({0: Peer(1, one.ready.votes)}))
    one.say(ConnectCoordinator(3, coordinator.addresses))
    coordinator.come(0)
    coordinator.publish(Start(0, (0, 1)))
    assert coordinator.report(lambda report: report.broke is not None).lost == (1,)
    assert not second.poll(0)


def test_others_are_waited_for_at_most_five_seconds(core: Cores) -> None:
    now = [100.0]
    one, coordinator, other = begun(core, clock=lambda: now[0])
    coordinator.publish(Start(0, (0, 1)))
    vote(other)
    now[0] = 104.9
    one.ask(begin("a"))
    assert one.beat(lambda beat: beat.taken == 1).waits_for == "the votes of ranks (1,)"
    now[0] = 105.0
    one.ask(begin("b"))
    assert coordinator.report(lambda report: report.broke is not None).lost == (1,)


def test_a_vote_for_one_that_is_gone_keeps_nobody_from_leaving(core: Cores) -> None:
    one = core(waves=True)
    coordinator = PaperCoordinator(one.sockets)
    one.say(
        Peers({1: Peer(1, f"ipc://{one.folder}/nobody")}),
        ConnectCoordinator(1, coordinator.addresses),
    )
    coordinator.come(0)
    coordinator.publish(Start(0, (0, 1)))
    until(lambda: "dummy" in one.pool.methods(), 5.0)
    one.beat(lambda beat: beat.steps == 1)
    one.say(Peers({}), Close())
    one.thread.join(5.0)
    assert not one.thread.is_alive()


def test_it_moves_to_another_coordinator(core: Cores) -> None:
    one, coordinator, other = begun(core)
    another = PaperCoordinator(one.sockets, "-2")
    one.say(ConnectCoordinator(2, another.addresses))
    another.come(0)
    coordinator.gone(0)
    another.publish(Start(0, (0, 1)))
    assert vote(other).era == 2
    one.say(Close())
    another.gone(0)


def test_what_the_coordinator_before_has_begun_is_nothing_to_the_next(
    core: Cores, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, coordinator, other = begun(core)
    another = PaperCoordinator(one.sockets, "-2")
    link = one.core._coordinator
    assert link is not None
    hear = link.hear

    def replaced_meanwhile() -> Any:
        news = hear()
        if isinstance(news, Start):  # it is taken, and the supervisor's word comes before it counts
            one.say(ConnectCoordinator(2, another.addresses))
        return news

    monkeypatch.setattr(link, "hear", replaced_meanwhile)
    coordinator.publish(Start(7, (0, 1)))
    another.come(0)
    another.publish(Start(0, (0, 1)))
    assert vote(other) == Vote(2, 0, 0, 0, 1, False)


def test_without_an_answer_it_comes_to_the_coordinator_anew(core: Cores) -> None:
    now = [100.0]
    one, coordinator, _ = begun(core, clock=lambda: now[0])
    one.ask(begin("a"))
    coordinator.report(lambda report: report.work)
    assert one.beat(lambda beat: beat.taken == 1).waits_for == "the coordinator to begin a wave"
    now[0] = 102.5
    coordinator.gone(0)
    coordinator.come(0)
    assert coordinator.report(lambda report: report.wants is not None).work


def test_without_a_coordinator_it_takes_requests_and_waits_for_one(core: Cores) -> None:
    now = [100.0]
    one = core(waves=True, clock=lambda: now[0])
    one.ask(begin("a", 1))
    one.beat(lambda beat: beat.taken == 1)
    now[0] = 109.0
    one.beat(lambda _: True)
    coordinator = PaperCoordinator(one.sockets)
    one.say(Peers({0: Peer(1, one.ready.votes)}), ConnectCoordinator(1, coordinator.addresses))
    coordinator.come(0)
    coordinator.report(lambda report: report.work)
    coordinator.publish(Start(0, (0,)))
    assert one.made("a") == ((TOKEN,), "length")
