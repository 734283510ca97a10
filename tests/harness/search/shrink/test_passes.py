"""Each pass makes one thing smaller, and nothing that a sound target could not play."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import msgspec
import pytest
from synthetic import scene

from killpoint.cases import CASES
from killpoint.errors import KillpointError
from killpoint.scenario import (
    Attach,
    Barrier,
    Call,
    Close,
    Execute,
    Fault,
    GroupRejoin,
    Join,
    Make,
    Message,
    Pause,
    Point,
    PoolStart,
    Ready,
    Receive,
    ReceiveFrom,
    RingRead,
    RingWrite,
    Scenario,
    Send,
    SendTo,
    Submit,
    Wait,
    dump,
)
from killpoint.search.shrink.attempt import Pass
from killpoint.search.shrink.message_balance import no_worse, owed, settled
from killpoint.search.shrink.messages import (
    fewer_calls,
    fewer_messages,
    fewer_rounds,
    fewer_slots,
)
from killpoint.search.shrink.options import earlier_points, fewer_options, quicker_calls
from killpoint.search.shrink.roles import fewer_roles, with_readers, with_workers
from killpoint.search.shrink.search import PASSES, search
from killpoint.search.shrink.sizes import (
    plainer_messages,
    resized,
    smaller_messages,
    smaller_ring,
    smaller_slots,
    smallest_messages,
)
from killpoint.search.shrink.steps import fewer_steps, held_up, makes_sense, waits_for_an_end
from killpoint.targets.shapes import GroupShape, PoolShape

OPEN = (Make(), Attach(), Ready(timeout=5.0))


def always(_: Scenario) -> bool:
    return True


def _after(each: Pass, scenario: Scenario, fails: Callable[[Scenario], bool] = always) -> Scenario:
    return search(scenario, fails, lambda: True, [each]).scenario


def _group(*steps: Any, ranks: int = 4) -> Scenario:
    return scene(Join(), *steps, Wait(), judges="G2", group=GroupShape(ranks))


def _pool(*steps: Any) -> Scenario:
    return scene(PoolStart(), *steps, Wait(), judges="W1", pool=PoolShape(workers=3))


def _queue(*steps: Any, **more: Any) -> Scenario:
    return scene(*OPEN, *steps, Wait(), **more)


def _sent(scenario: Scenario) -> list[Message]:
    return [m for step in scenario.steps if isinstance(step, Send) for m in step.messages]


# -- roles ----------------------------------------------------------------------------------


def test_readers_that_are_not_needed_go_and_take_their_steps_along() -> None:
    long = _queue(
        Send([Message()]), Receive(1), Close(("reader-0", "reader-2")), Pause(1.0), readers=3
    )
    short = _after(fewer_roles, long)
    assert short.shape.readers == 1
    assert all(step.roles == ("reader-0",) for step in short.steps if isinstance(step, Close))


def test_the_reader_that_fails_is_kept_under_a_new_number() -> None:
    long = _queue(Send([Message()]), Receive(1), Fault("kill", "reader-2"), readers=3)

    def fails(scenario: Scenario) -> bool:
        return any(isinstance(step, Fault) for step in scenario.steps)

    short = _after(fewer_roles, long, fails)
    assert short.shape.readers == 1
    assert [step.role for step in short.steps if isinstance(step, Fault)] == ["reader-0"]


def test_remote_readers_stay_remote() -> None:
    base = _queue(readers=3)
    shape = msgspec.structs.replace(base.shape, remote=1)
    long = msgspec.structs.replace(base, shape=shape)
    assert with_readers(long, [0, 2]).shape.remote == 1
    assert with_readers(long, [0, 1]).shape.remote == 0


def test_ranks_go_but_never_the_host() -> None:
    long = _group(
        SendTo("rank-3", "rank-1", [Message()]), ReceiveFrom(("rank-1",), "rank-3"), Barrier()
    )
    assert _after(fewer_roles, long).roles() == ["rank-0"]

    def fails(scenario: Scenario) -> bool:
        return any(isinstance(step, SendTo) for step in scenario.steps)

    short = _after(fewer_roles, long, fails)
    assert short.roles() == ["rank-0", "rank-1", "rank-2"]
    assert [(s.role, s.to) for s in short.steps if isinstance(s, SendTo)] == [("rank-2", "rank-1")]


# -- steps ----------------------------------------------------------------------------------


def test_steps_go_but_not_the_opening_nor_the_last_wait() -> None:
    short = _after(fewer_steps, _queue(Pause(1.0), Send([Message()]), Receive(1), Close()))
    assert [type(step) for step in short.steps] == [Make, Attach, Ready, Wait]


def test_a_send_does_not_go_without_its_receive() -> None:
    long = _queue(Send([Message()]), Receive(1))
    asked = [c for c in _offers(fewer_steps, long) if owed(c) != owed(long)]
    assert asked == []


def test_a_stopped_role_is_not_left_stopped() -> None:
    long = _queue(Fault("stop", "writer"), Pause(1.0), Fault("continue", "writer"))
    assert all(not held_up(candidate) for candidate in _offers(fewer_steps, long))


def test_the_end_that_an_endless_call_waits_for_stays() -> None:
    long = _queue(Receive(1, timeout=None), Fault("kill", "writer"))
    assert waits_for_an_end(long)
    assert not makes_sense(_queue(Receive(1, timeout=None)), long)
    assert makes_sense(_queue(Receive(1, timeout=1.0)), _queue(Receive(1, timeout=1.0), Close()))


def test_what_some_ranks_do_together_stays() -> None:
    long = _group(Barrier(("rank-0", "rank-1")), Fault("kill", "rank-2"))
    short = _after(fewer_steps, long)
    assert [type(step) for step in short.steps] == [Join, Barrier, Fault, Wait]


# -- messages -------------------------------------------------------------------------------


def test_messages_go_with_their_receives() -> None:
    long = _queue(Send([Message(repeat=40), Message("array", 900), Message()]), Receive(42))

    def fails(scenario: Scenario) -> bool:
        return any(message.kind == "array" for message in _sent(scenario))

    short = _after(fewer_messages, long, fails)
    assert _sent(short) == [Message("array", 900)]
    assert [step.count for step in short.steps if isinstance(step, Receive)] == [1]


def test_a_run_becomes_as_short_as_still_fails() -> None:
    def fails(scenario: Scenario) -> bool:
        return sum(message.repeat for message in _sent(scenario)) >= 6

    short = _after(fewer_messages, _queue(Send([Message(repeat=600)]), Receive(600)), fails)
    assert [message.repeat for message in _sent(short)] == [6]
    assert owed(short)["queue", "", "reader-0"] == 0


def test_of_a_growing_run_the_last_size_alone_is_tried() -> None:
    def fails(scenario: Scenario) -> bool:
        return any(m.size + m.step * (m.repeat - 1) >= 1099 for m in _sent(scenario))

    long = _queue(Send([Message(size=1000, repeat=100, step=1)]), Receive(100))
    assert _sent(_after(fewer_messages, long, fails)) == [Message(size=1099)]


def test_a_step_without_messages_is_gone() -> None:
    short = _after(fewer_messages, _queue(Send([Message()]), Receive(1)))
    assert not any(isinstance(step, Send | Receive) for step in short.steps)


def test_receives_of_two_steps_follow() -> None:
    long = _queue(Send([Message(repeat=5)]), Receive(2), Receive(3))
    less = msgspec.structs.replace(
        long, steps=[Send([Message(repeat=1)]) if isinstance(s, Send) else s for s in long.steps]
    )
    assert [s.count for s in settled(less, long).steps if isinstance(s, Receive)] == [1]
    assert no_worse(settled(less, long), long)
    assert not no_worse(less, long)


def test_a_slots_write_goes_with_its_reads() -> None:
    long = _queue(RingWrite(), RingRead(), RingWrite(), RingRead())
    short = _after(fewer_slots, long, lambda s: any(isinstance(x, RingWrite) for x in s.steps))
    assert [type(s) for s in short.steps if isinstance(s, RingWrite | RingRead)] == [
        RingWrite,
        RingRead,
    ]


def test_the_wait_for_what_ranks_do_beside_stays() -> None:
    waits = ReceiveFrom(("rank-1",), "rank-0", timeout=1.0, beside=True)
    long = _group(Pause(1.0), waits, SendTo("rank-0", "rank-1", [Message()]), GroupRejoin())

    def fails(scenario: Scenario) -> bool:
        return any(isinstance(step, SendTo) for step in scenario.steps)

    short = _after(fewer_steps, long, fails)
    assert [type(step) for step in short.steps] == [Join, ReceiveFrom, SendTo, GroupRejoin, Wait]


def test_rounds_of_all_ranks_are_fewer() -> None:
    short = _after(fewer_rounds, _group(Barrier(times=500), Barrier(("rank-0",), times=9)))
    assert [step.times for step in short.steps if isinstance(step, Barrier)] == [1, 9]


def test_calls_of_a_pool_are_fewer() -> None:
    def fails(s: Scenario) -> bool:
        return any(isinstance(x, Call) and x.times >= 3 and x.method == "echo" for x in s.steps)

    short = _after(fewer_calls, _pool(Call(times=30), Call("heavy", times=9)), fails)
    assert [step.times for step in short.steps if isinstance(step, Call)] == [3, 1]


def test_workers_are_fewer_and_a_lone_reply_is_still_asked_of_the_same_one() -> None:
    def fails(s: Scenario) -> bool:
        return any(isinstance(x, Fault) for x in s.steps)

    long = _pool(Fault("stop", "worker-2"), Call(rank=2), Fault("kill", "worker-0"), Submit())
    (stop, call, submit) = _after(fewer_roles, long, fails).steps[1:-1]
    assert (stop, call, submit) == (Fault("stop", "worker-0"), Call(rank=0), Submit())
    both = with_workers(_pool(Call(rank=1), Fault("stop", "worker-2")), [2])
    assert both is None, "its only reply would be another worker's"
    assert with_workers(_pool(Execute(((), (), ()), ((), (), ()))), [0]) is None


# -- sizes ----------------------------------------------------------------------------------


def test_messages_become_plain_bytes() -> None:
    long = _queue(Send([Message("buffers", 100, buffers=3, repeat=4, step=2)]), Receive(4))
    assert _sent(_after(plainer_messages, long)) == [Message(size=100, repeat=4)]


def test_a_message_that_cannot_be_decoded_stays_one() -> None:
    long = _queue(Send([Message("undecodable", 100)]), Receive(1))
    assert _sent(_after(plainer_messages, long)) == [Message("undecodable", 100)]


@pytest.mark.parametrize(
    ("each", "most"), [(smallest_messages, 5000), (smaller_messages, 5000 * 9 // 8)]
)
def test_a_size_becomes_the_smallest_that_fails(each: Pass, most: int) -> None:
    long = _queue(Send([Message(size=64_000_000)]), Receive(1))
    short = _after(each, long, lambda scenario: _sent(scenario)[0].size >= 5000)
    assert 5000 <= _sent(short)[0].size <= most


def test_a_slot_is_filled_with_less() -> None:
    short = _after(smaller_slots, _queue(RingWrite(size=500), RingRead()))
    assert [step.size for step in short.steps if isinstance(step, RingWrite)] == [1]


def test_the_ring_shrinks_and_what_is_near_its_boundary_stays_near() -> None:
    long = _queue(Send([Message(size=990), Message(size=10)]), Receive(2))
    short = _after(smaller_ring, long)
    assert (short.shape.chunks, short.shape.chunk_bytes) == (1, 64)
    assert [message.size for message in _sent(short)] == [54, 10]
    assert _sent(resized(_queue(Send([Message(size=1 << 20)])), 500)) == [Message(size=1 << 20)]


# -- options --------------------------------------------------------------------------------


def test_what_is_unusual_and_not_needed_is_set_back() -> None:
    send = Send([Message()], threads=4, burst=True)
    long = _queue(send, Receive(1, threads=2), umask=0, restart=True)
    short = _after(fewer_options, long, lambda scenario: scenario.umask == 0)
    assert (short.umask, short.restart) == (0, False)
    assert all(s.threads == 1 for s in short.steps if isinstance(s, Send | Receive))


def test_a_fault_strikes_as_early_as_still_fails() -> None:
    long = _queue(Fault("kill", "writer", Point("send", line=3, nth=40)), Send([Message()]))

    def fails(scenario: Scenario) -> bool:
        return any(isinstance(s, Fault) and s.at and s.at.nth >= 7 for s in scenario.steps)

    short = _after(earlier_points, long, fails)
    assert [s.at for s in short.steps if isinstance(s, Fault)] == [Point("send", line=3, nth=7)]


def test_calls_that_could_wait_long_wait_a_second_and_short_ones_stay() -> None:
    long = _queue(Send([Message()], timeout=9.0), Receive(1, timeout=0.15), Receive(1))
    short = _after(quicker_calls, long)
    assert [s.timeout for s in short.steps if isinstance(s, Send | Receive)] == [1.0, 0.15, None]


# -- all of them ----------------------------------------------------------------------------


def _offers(
    each: Pass, scenario: Scenario, said: bool = False, most: int | None = None
) -> list[Scenario]:
    """The candidates of a pass in which none fails, or each does; at most so many."""
    found: list[Scenario] = []
    offers = each(scenario)
    candidate = next(offers, None)
    while candidate is not None and len(found) != most:
        found.append(candidate)
        try:
            candidate = offers.send(said)
        except StopIteration:
            break
    return found


class _Once(BaseException):
    pass


class _Collector:
    """A player that plays nothing: it keeps what a case would have played first."""

    def __init__(self) -> None:
        self.seen: list[Scenario] = []

    def play(self, scenario: Scenario) -> Any:
        self.seen.append(scenario)
        raise _Once

    def forget(self, _play: Any) -> None: ...


def _first_scenarios() -> list[Scenario]:
    from killpoint.search.case_run import CaseRun
    from killpoint.search.play_evidence import Unsupported

    found: list[Scenario] = []
    for case in CASES:
        if case.tier != "process":
            continue
        player = _Collector()
        case_run = CaseRun(case.id, player, seed=0, full=False, folder=None)
        try:
            case.run(case_run)
        except (_Once, KillpointError, Unsupported, BaseExceptionGroup):
            found += player.seen[:1]
    return found


_TRIED = 15
"""Candidates of a pass that are looked at in each run of the tests; all under ``--full``."""


def test_every_candidate_of_every_case_asks_for_what_is_sent(pytestconfig: pytest.Config) -> None:
    by_invariant = {scenario.judges[0]: scenario for scenario in _first_scenarios()}
    assert len(by_invariant) > 25
    most = None if pytestconfig.getoption("--full") else _TRIED
    for scenario, said in product(by_invariant.values(), (False, True)):
        for each in PASSES:
            for candidate in _offers(each, scenario, said, most):
                kept = candidate.roles() == scenario.roles()
                sound = not kept or makes_sense(candidate, scenario)
                assert sound, f"{scenario.case}, {each.__name__}: {dump(candidate)}"
