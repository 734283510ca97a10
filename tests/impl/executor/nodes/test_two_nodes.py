"""A pool on two nodes: its calls, and how each end of it is told (SPEC W3, Q18, L1)."""

import logging
import os
import pickle
import signal
import sys
from dataclasses import replace

import pytest

from refengine.executor import CallTimedOut, Executor, NodeLost, StartFailed, WorkerDied

from ...relay import Relay
from ...roles import Role, leftovers, until
from ..test_deaths import gone
from .pairs import SOON, WORKER, follow, nodes, run_head, settings_of, two_nodes


@pytest.fixture(autouse=True)
def quiet():
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def test_calls_reach_both_nodes_and_a_shut_down_head_ends_the_follower_well():
    with two_nodes() as (made, follower):
        assert made.collective_rpc("echo", 5.0, ("a",)) == [(rank, ("a",), {}) for rank in (0, 1)]
        big = made.collective_rpc("fill", 5.0, (1 << 21,), unique_reply_rank=1)
        assert big == bytes([2]) * (1 << 21)
        futures = [made.collective_rpc("pid", 5.0, non_block=True) for _ in range(3)]
        pids = [future.result(5.0) for future in futures]
        assert pids[0] == pids[1] == pids[2]
        here, there = pids[0]
        assert made.pids == [here]
        made.check_health(5.0)
        made.shutdown()
        assert follower.finish(SOON) == [""]
        gone([here, there])
    assert leftovers(os.getpid()) == leftovers(follower.pid) == leftovers(there) == []


def test_a_worker_that_does_not_get_on_is_told_of_the_other_node_too(tmp_path):
    with two_nodes() as (made, _):
        with pytest.raises(CallTimedOut):
            made.collective_rpc("wait_for", 0.2, (str(tmp_path / "go"), 1))
        with pytest.raises(CallTimedOut) as late:
            made.check_health(0.2)
        assert late.value.ranks == [1]
        (tmp_path / "go").touch()
        made.check_health(SOON)


def test_options_that_only_the_head_can_decode_are_an_error_at_both(monkeypatch):
    settings = nodes()
    follower = Role(follow, settings)
    module = type(sys)("known_to_the_head_alone")
    exec("class Weights(str): ...", module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    try:
        with pytest.raises(NodeLost, match="does not understand: ModuleNotFoundError"):
            Executor(WORKER, 2, options={"fail": module.Weights()}, settings=settings_of(settings))
        (cause,) = follower.finish(SOON)
        assert "does not understand" in cause
    finally:
        follower.kill()


def test_a_killed_head_ends_the_follower_and_its_workers():
    settings = nodes()
    follower, head = Role(follow, settings), Role(run_head, settings)
    try:
        pids = head.hear()
        head.kill()
        (cause,) = follower.finish(SOON)
        assert cause == (f"the head at 127.0.0.1:{settings.port} has ended without a goodbye")
        gone(pids)
    finally:
        follower.kill()
        head.kill()
    assert leftovers(follower.pid) == leftovers(pids[1]) == []


def test_a_killed_follower_is_named_and_the_pool_ends():
    told = []
    with two_nodes() as (made, follower):
        made.on_failure(lambda: told.append(1))
        pids = made.collective_rpc("pid", 5.0)
        future = made.collective_rpc("sit", SOON, (1,), non_block=True)
        follower.kill()
        with pytest.raises(NodeLost, match=rf"node 1 \(pid {follower.pid} there\) has ended"):
            future.result(SOON)
        with pytest.raises(NodeLost):
            made.collective_rpc("pid")
        gone(pids)
        until(lambda: made.state == "STOPPED")
    assert told == [1]


def test_a_worker_killed_on_the_follower_is_named_and_both_nodes_end():
    with two_nodes() as (made, follower):
        pids = made.collective_rpc("pid", 5.0)
        with pytest.raises(WorkerDied) as death:
            made.collective_rpc("die", SOON, (1,))
        assert (death.value.rank, death.value.pid, death.value.signal) == (1, pids[1], 9)
        assert f"worker 1 (pid {pids[1]} on node 1) was killed by SIGKILL" in str(death.value)
        assert str(pickle.loads(pickle.dumps(death.value))) == str(death.value)
        (cause,) = follower.finish(SOON)
        assert "worker 1" in cause
        assert "SIGKILL" in cause
        gone(pids)


def test_a_follower_that_is_told_to_end_says_so():
    settings = nodes()

    def told(say):
        from refengine.executor.nodes.follower import Follower

        logging.disable()
        made = Follower(settings, 15.0)
        signal.signal(signal.SIGTERM, lambda *_: made.stop("SIGTERM has ended it"))
        say(made.run())

    follower = Role(told)
    try:
        with Executor(WORKER, 2, settings=settings_of(settings)) as made:
            os.kill(follower.pid, signal.SIGTERM)
            assert follower.finish(SOON) == [""]
            with pytest.raises(NodeLost, match="SIGTERM has ended it"):
                made.collective_rpc("pid", SOON)
    finally:
        follower.kill()


def test_a_worker_that_cannot_start_on_the_follower_is_named():
    settings = nodes()
    follower = Role(follow, settings)
    try:
        with pytest.raises(StartFailed, match=r"worker 1 .*on node 1: [^$]*no weights"):
            Executor(
                WORKER, 2, options={"fail": "loading", "at": 1}, settings=settings_of(settings)
            )
        (cause,) = follower.finish(SOON)
        assert "worker 1" in cause
    finally:
        follower.kill()


def test_a_cut_between_the_nodes_is_noticed_by_both():
    settings = nodes(peer_timeout=0.6)
    relay = Relay(f"tcp://127.0.0.1:{settings.port}")
    port = int(relay.address.rpartition(":")[2])
    try:
        with two_nodes(settings, port) as (made, follower):
            pids = made.collective_rpc("pid", 5.0)
            relay.cut()
            with pytest.raises(NodeLost, match=r"was not heard of for 0\.6 s"):
                made.collective_rpc("sit", SOON, (1,))
            (cause,) = follower.finish(SOON)
            assert "was not heard of for 0.6 s" in cause
            gone(pids)
    finally:
        relay.close()


def test_a_cut_that_is_mended_in_time_loses_nothing():
    settings = nodes(peer_timeout=2.0)
    relay = Relay(f"tcp://127.0.0.1:{settings.port}")
    port = int(relay.address.rpartition(":")[2])
    try:
        with two_nodes(settings, port) as (made, follower):
            relay.cut()
            futures = [made.collective_rpc("echo", SOON, (n,), non_block=True) for n in range(9)]
            found = [future.result(SOON) for future in futures]
            assert found == [[(rank, (n,), {}) for rank in (0, 1)] for n in range(9)]
            relay.heal()
            made.shutdown()
            assert follower.finish(SOON) == [""]
    finally:
        relay.close()


def test_a_follower_with_another_secret_is_not_let_in():
    settings = nodes(peer_timeout=0.5)
    stranger = replace(settings, secret=b"guessed by somebody")
    follower = Role(follow, stranger)
    try:
        with pytest.raises(TimeoutError, match="node 1 to join"):
            Executor(WORKER, 2, settings=settings_of(settings, start_timeout=0.5))
    finally:
        follower.kill()


def test_a_follower_without_a_head_gives_up():
    from refengine.executor.nodes.follower import Follower

    cause = Follower(nodes(), 0.2).run()
    assert "was not heard of for 0.2 s" in cause
