"""The front end's book: every request ends, elsewhere if its replica dies, with the same tokens."""

from collections import Counter

import pytest

from refengine.engine.errors import EngineClosed, EngineFull, RequestFailed
from refengine.engine.front_end.request_tracker import (
    Connect,
    Deliver,
    Disconnect,
    DropReplica,
    RequestTracker,
    Send,
)
from refengine.engine.front_end.streams import Delta
from refengine.engine.protocol import AddRequest, Cancel, Heartbeat, Output, Outputs, Refused
from refengine.engine.settings import EngineSettings


class Desk:
    """A book and what it wanted, sorted."""

    def __init__(self, **given) -> None:
        self.tracker = RequestTracker(EngineSettings(**given))
        self.now = 0.0
        self.given: dict[str, list] = {}
        self.at: dict[str, list[AddRequest]] = {}
        self.cancelled: list[tuple[str, str]] = []
        self.evicted: list[DropReplica] = []
        self.lives = Counter()

    def do(self, actions):
        for action in actions:
            match action:
                case Deliver(name, news):
                    self.given.setdefault(name, []).append(news)
                case Send(name, AddRequest(request)):
                    self.at.setdefault(name, []).append(request)
                case Send(name, Cancel(attempt)):
                    self.cancelled.append((name, attempt))
                case DropReplica():
                    self.evicted.append(action)
                case Connect() | Disconnect():
                    pass
        return actions

    def arrive(self, *names):
        for name in names:
            self.lives[name] += 1
            self.tracker.started(name, self.lives[name], 100)
            self.do(self.tracker.arrived(name, f"ipc://{name}", self.now))

    def submit(self, name="a", prompt=(1, 2), tokens=8):
        self.do(self.tracker.submit(name, prompt, tokens, self.now))

    def made(self, name, attempt, *tokens, finish=None):
        self.do(self.tracker.receive(name, Outputs((Output(attempt, tokens, finish),)), self.now))

    def leave(self, name, coming=True):
        self.do(self.tracker.left(name, "was killed", coming, self.now))

    def beat(self, name, waiting=0, running=0, taken=0, steps=0, busy=0.0):
        self.do(
            self.tracker.receive(name, Heartbeat(waiting, running, taken, steps, busy), self.now)
        )

    def where(self):
        return Counter({name: len(requests) for name, requests in self.at.items()})


@pytest.fixture
def one():
    front_end = Desk()
    front_end.arrive("core-0")
    return front_end


@pytest.fixture
def two():
    front_end = Desk(data_parallel=2)
    front_end.arrive("core-0", "core-1")
    return front_end


@pytest.fixture
def apart():
    front_end = Desk(prefill=1)
    front_end.arrive("core-0", "prefill-0")
    front_end.tracker.linked("l", "prefill-0", "core-0")
    return front_end


# -- one request ----------------------------------------------------------------------------------


def test_tokens_go_to_the_stream_as_they_come(one):
    one.submit()
    (request,) = one.at["core-0"]
    assert (request.prompt, request.max_tokens) == ((1, 2), 8)
    one.made("core-0", request.id, 5)
    one.made("core-0", request.id, 6, finish="length")
    assert one.given["a"] == [Delta((5,)), Delta((6,), "length")]
    assert one.tracker.open == 0
    assert one.tracker.outcomes["length"] == 1
    assert (one.tracker.prompt_tokens, one.tracker.tokens) == (2, 2)


def test_an_output_without_tokens_and_end_is_no_news(one):
    one.submit()
    one.made("core-0", one.at["core-0"][0].id)
    assert one.given == {}


def test_each_attempt_has_a_name_of_its_own(one):
    one.submit("a")
    one.submit("b")
    first, second = one.at["core-0"]
    assert first.id != second.id
    one.made("core-0", second.id, finish="stop")
    assert list(one.given) == ["b"]


def test_a_name_is_used_once_at_a_time(one):
    one.submit()
    with pytest.raises(ValueError, match="'a'"):
        one.submit()
    one.made("core-0", one.at["core-0"][0].id, finish="stop")
    one.submit()


def test_one_more_than_may_wait_is_refused():
    front_end = Desk(max_waiting=2)
    front_end.arrive("core-0")
    front_end.submit("a")
    front_end.submit("b")
    with pytest.raises(EngineFull) as full:
        front_end.submit("c")
    assert (full.value.waiting, full.value.limit) == (2, 2)
    assert front_end.tracker.outcomes["refused"] == 1
    front_end.made("core-0", front_end.at["core-0"][0].id, 1)
    front_end.submit("c")


def test_what_a_core_refuses_fails_and_is_tried_nowhere_else(two):
    two.submit()
    ((name, (request,)),) = two.at.items()
    two.do(two.tracker.receive(name, Refused(request.id, "too long"), 0.0))
    (error,) = two.given["a"]
    assert isinstance(error, RequestFailed)
    assert (error.request_id, error.cause, error.tokens_so_far) == ("a", "too long", ())
    assert two.where().total() == 1
    two.do(two.tracker.receive(name, Refused(request.id, "too long"), 0.0))


def test_cancelling_ends_it_at_once_and_tells_the_core(one):
    one.submit()
    (request,) = one.at["core-0"]
    one.made("core-0", request.id, 5)
    one.do(one.tracker.cancel("a"))
    assert one.given["a"] == [Delta((5,)), Delta((), "cancelled")]
    assert one.cancelled == [("core-0", request.id)]
    one.made("core-0", request.id, 6)
    one.do(one.tracker.cancel("a"))
    assert len(one.given["a"]) == 2
    assert one.tracker.outcomes["cancelled"] == 1


def test_closing_ends_all_of_them(two):
    two.submit("a")
    two.submit("b")
    two.do(two.tracker.close())
    assert [type(two.given[name][0]) for name in "ab"] == [EngineClosed] * 2
    assert two.tracker.open == 0
    assert two.tracker.outcomes["failed"] == 2


# -- which replica --------------------------------------------------------------------------------


def test_requests_go_round_and_to_the_least_loaded(two):
    for name in "abcd":
        two.submit(name)
    assert two.where() == {"core-0": 2, "core-1": 2}
    two.beat("core-0", waiting=2, taken=2)
    two.beat("core-1", running=2, taken=2)
    for name in "ef":
        two.submit(name)
    assert two.where() == {"core-0": 2, "core-1": 4}


def test_what_is_on_its_way_is_part_of_the_load(two):
    two.beat("core-0", running=3)
    for name in "ab":
        two.submit(name)
    assert two.where() == {"core-1": 1, "core-0": 1}


def test_a_replica_that_does_not_get_on_is_left_alone_if_there_is_another(two):
    two.now = 2.5
    two.beat("core-1")
    for name in "abc":
        two.submit(name)
    assert two.where() == {"core-1": 3}
    two.now = 9.0
    two.submit("d")
    assert two.where() == {"core-1": 3, "core-0": 1}


def test_without_a_replica_a_request_waits_for_one_that_comes():
    front_end = Desk()
    front_end.submit()
    assert front_end.at == {}
    assert front_end.tracker.health(2.0, alive=True).progressing
    assert not front_end.tracker.health(2.1, alive=True).progressing
    front_end.arrive("core-0")
    assert len(front_end.at["core-0"]) == 1


# -- deaths ---------------------------------------------------------------------------------------


def test_a_request_goes_on_elsewhere_after_the_tokens_it_has_given(two):
    two.submit(prompt=(1, 2), tokens=8)
    ((dead, (request,)),) = two.at.items()
    two.made(dead, request.id, 5)
    two.made(dead, request.id, 6)
    two.leave(dead)
    other = {"core-0": "core-1", "core-1": "core-0"}[dead]
    (again,) = two.at[other]
    assert (again.prompt, again.max_tokens) == ((1, 2, 5, 6), 6)
    assert again.id != request.id
    assert two.tracker.retries == 1
    two.made(dead, request.id, 7)
    two.made(other, again.id, 7, finish="stop")
    assert two.given["a"] == [Delta((5,)), Delta((6,)), Delta((7,), "stop")]


def test_others_stay_where_they_are(two):
    two.submit("a")
    two.submit("b")
    two.leave("core-0")
    assert two.where() == {"core-0": 1, "core-1": 2}


def test_alone_it_waits_for_the_next_life_and_not_if_there_is_none(one):
    one.submit()
    one.leave("core-0")
    assert one.given == {}
    one.arrive("core-0")
    assert one.where() == {"core-0": 2}
    one.leave("core-0", coming=False)
    (error,) = one.given["a"]
    assert isinstance(error, RequestFailed)
    assert error.cause == "core-0 was killed, and none will come"


def test_what_waits_fails_when_nobody_comes_any_more():
    front_end = Desk(data_parallel=2)
    front_end.submit()
    front_end.leave("core-0", coming=False)
    assert front_end.given == {}
    front_end.leave("core-1", coming=False)
    assert "core-1 was killed, and none will come" in str(front_end.given["a"][0])


def test_where_nobody_ever_was_a_request_fails_at_once():
    front_end = Desk()
    front_end.tracker.replicas["core-0"].left(coming=False)
    front_end.submit()
    assert front_end.given["a"][0].cause == "no replica is there, and none will come"


def test_it_is_begun_anew_so_many_times_and_no_more():
    front_end = Desk(retries=2)
    for _ in range(3):
        front_end.arrive("core-0")
        if not front_end.at:
            front_end.submit()
        front_end.made("core-0", front_end.at["core-0"][-1].id, 4)
        front_end.leave("core-0")
    (*_, error) = front_end.given["a"]
    assert isinstance(error, RequestFailed)
    assert error.tokens_so_far == (4, 4, 4)
    assert "core-0 was killed" in error.cause
    assert len(front_end.at["core-0"]) == 3
    assert front_end.tracker.retries == 2


def test_a_new_life_has_no_load(two):
    two.beat("core-0", waiting=9, taken=9)
    two.leave("core-0")
    two.arrive("core-0")
    two.submit("a")
    two.submit("b")
    assert two.where() == {"core-0": 1, "core-1": 1}


def test_connections_follow_the_lives(one):
    assert one.do(one.tracker.left("core-0", "x", True, 0.0)) == [Disconnect("core-0")]
    assert one.do(one.tracker.left("core-0", "x", True, 0.0)) == []
    assert one.do(one.tracker.arrived("core-0", "ipc://2", 0.0)) == [Connect("core-0", "ipc://2")]


# -- who does not get on --------------------------------------------------------------------------


def test_a_silent_replica_is_evicted(one):
    one.now = 10.0
    one.do(one.tracker.tick(one.now))
    assert one.evicted == []
    one.now = 10.1
    one.do(one.tracker.tick(one.now))
    (evict,) = one.evicted
    assert (evict.name, evict.life) == ("core-0", 1)
    assert "no sign of life for 10.1 s" in evict.cause


def test_health_tells_three_things_apart(two):
    assert two.tracker.health(0.0, alive=True).ready
    two.submit()
    (name,) = two.at
    two.now = 1.9
    for each in ("core-0", "core-1"):
        two.beat(each)
    assert two.tracker.health(1.9, alive=True).progressing
    health = two.tracker.health(2.5, alive=True)
    assert (health.alive, health.ready, health.progressing) == (True, True, False)
    (stuck,) = [replica for replica in health.replicas if replica.state == "stuck"]
    assert (stuck.name, stuck.since_step, stuck.pid) == (name, 2.5, 100)
    two.leave("core-0")
    two.leave("core-1")
    assert not two.tracker.health(2.5, alive=True).ready


def test_whoever_sends_tokens_is_there_and_with_none_left_to_make_it_may_rest(one):
    one.submit()
    one.now = 9.0
    one.made("core-0", one.at["core-0"][0].id, 5, finish="length")
    one.do(one.tracker.tick(18.0))
    assert one.evicted == []
    (replica,) = one.tracker.health(18.0, alive=True).replicas
    assert replica.since_step == 0.0


def test_tokens_that_come_are_progress(one):
    one.submit()
    one.now = 3.0
    assert not one.tracker.health(3.0, alive=True).progressing
    one.made("core-0", one.at["core-0"][0].id, 5)
    assert one.tracker.health(5.0, alive=True).progressing
    assert not one.tracker.health(5.1, alive=True).progressing


def test_requests_that_nobody_has_make_no_progress(one):
    one.submit()
    one.leave("core-0")
    assert one.tracker.health(1.9, alive=True).progressing
    assert not one.tracker.health(2.1, alive=True).progressing
    one.now = 5.0
    one.arrive("core-0")
    assert one.tracker.health(5.0, alive=True).progressing


def test_without_its_threads_nothing_is_ready(one):
    health = one.tracker.health(0.0, alive=False)
    assert (health.alive, health.ready) == (False, False)


def test_counts_are_told_by_replica(two):
    two.submit()
    two.beat("core-0", 1, 2, 1, 7)
    counts = two.tracker.counts({"core-0": 3}, 4)
    assert (counts.open, counts.wave, counts.restarts) == (1, 4, {"core-0": 3})
    assert counts.waiting["core-0"] == 1
    assert counts.running == {"core-0": 2, "core-1": 0}
    assert counts.steps == {"core-0": 7, "core-1": 0}


# -- prefill and decode apart ---------------------------------------------------------------------


def test_the_prefill_replica_makes_the_first_token_and_hands_on(apart):
    apart.submit(prompt=(1, 2), tokens=8)
    (first,) = apart.at["prefill-0"]
    assert (first.export, first.prompt, first.max_tokens) == ("l", (1, 2), 8)
    apart.made("prefill-0", first.id, 5, finish="exported")
    (second,) = apart.at["core-0"]
    assert (second.imported, second.transfer) == ("l", first.transfer_id)
    assert (second.prompt, second.max_tokens, second.export) == ((1, 2, 5), 7, None)
    apart.made("core-0", second.id, 6, finish="length")
    assert apart.given["a"] == [Delta((5,)), Delta((6,), "length")]


def test_what_ends_with_its_first_token_needs_no_decode(apart):
    apart.submit(tokens=1)
    apart.made("prefill-0", apart.at["prefill-0"][0].id, 5, finish="length")
    assert apart.given["a"] == [Delta((5,), "length")]
    assert "core-0" not in apart.at


@pytest.mark.parametrize("why", ["no link", "no prefill", "stuck"])
def test_decode_prefills_itself_when_it_must(apart, why):
    if why == "no link":
        apart.tracker.unlinked("l")
    elif why == "no prefill":
        apart.leave("prefill-0")
    else:
        apart.now = 3.0
        apart.beat("core-0")
    apart.submit()
    (request,) = apart.at["core-0"]
    assert (request.export, request.imported) == (None, None)


def test_a_prefill_replica_that_dies_leaves_its_requests_to_decode(apart):
    apart.submit()
    apart.leave("prefill-0")
    (request,) = apart.at["core-0"]
    assert request.imported is None


def test_a_link_that_fell_is_not_used_to_hand_on(apart):
    apart.submit()
    apart.tracker.unlinked("l")
    apart.made("prefill-0", apart.at["prefill-0"][0].id, 5, finish="exported")
    (request,) = apart.at["core-0"]
    assert (request.imported, request.prompt) == (None, (1, 2, 5))


def test_what_is_handed_on_while_decode_is_away_waits_for_it(apart):
    apart.submit()
    apart.leave("core-0")
    apart.made("prefill-0", apart.at["prefill-0"][0].id, 5, finish="exported")
    assert "core-0" not in apart.at
    apart.arrive("core-0")
    assert apart.at["core-0"][0].prompt == (1, 2, 5)


def test_decode_is_expected_to_have_what_prefill_replicas_prepare():
    front_end = Desk(data_parallel=2, prefill=1)
    front_end.arrive("core-0", "core-1", "prefill-0")
    for core in ("core-0", "core-1"):
        front_end.tracker.linked(f"to {core}", "prefill-0", core)
    for name in "abcd":
        front_end.submit(name)
    links = Counter(request.export for request in front_end.at["prefill-0"])
    assert links == {"to core-0": 2, "to core-1": 2}
    for request in front_end.at["prefill-0"]:
        front_end.made("prefill-0", request.id, 5, finish="exported")
    assert front_end.where() == {"prefill-0": 4, "core-0": 2, "core-1": 2}
    assert [tracker.expected for tracker in front_end.tracker.replicas.values()] == [0, 0, 0]


def test_what_a_life_that_is_over_said_of_itself_is_not_held_against_the_next(one):
    one.leave("core-0")
    one.beat("core-0", running=4, steps=9, busy=11.0)  # it lay unread meanwhile
    one.arrive("core-0")
    one.do(one.tracker.tick(one.now))
    assert one.evicted == []
