"""An exception before any line of an operation leaves a pool that works, or none at all (R9)."""

import contextlib
import gc
import os
from pathlib import Path

import pytest

from refengine.executor import Zygote

from ..roles import descriptors, leftovers
from ..striking import strikes
from .test_deaths import gone
from .workers import pool


@pytest.fixture(scope="module")
def two():
    with pool(in_flight=4) as made:
        yield made


def test_a_struck_call_harms_no_later_one(two):
    for n, striker in enumerate(strikes()):
        striker.during(lambda n=n: two.collective_rpc("echo", 5.0, (n,)))
        answer = two.collective_rpc("echo", 5.0, ("after", n))
        assert answer == [(rank, ("after", n), {}) for rank in (0, 1)], striker.where


def test_a_struck_call_after_late_replies_harms_no_later_one(two):
    for n, striker in enumerate(strikes(3)):
        with contextlib.suppress(TimeoutError):
            two.collective_rpc("deaf_to_exit", 0.0, (0.001,))
        striker.during(lambda n=n: two.collective_rpc("echo", 5.0, (n,)))
        answer = two.collective_rpc("echo", 5.0, ("after", n))
        assert answer == [(rank, ("after", n), {}) for rank in (0, 1)], striker.where


@pytest.mark.parametrize("in_flight", [1, 4])
def test_a_struck_call_that_does_not_wait_harms_no_later_one(in_flight):
    """With one place in flight, a place that is lost is missed by the very next call."""
    with pool(in_flight=in_flight) as two:
        _strike_submissions(two)


def _strike_submissions(two):
    def submitted(n):
        return two.collective_rpc("echo", 5.0, (n,), non_block=True)

    for n, striker in enumerate(strikes()):
        made = striker.during(lambda n=n: submitted(n))
        after = submitted(("after", n)).result(5.0)
        assert after == [(rank, (("after", n),), {}) for rank in (0, 1)], striker.where
        for future in made:
            assert future.result(5.0) == [(rank, (n,), {}) for rank in (0, 1)], striker.where


def test_a_struck_shutdown_can_be_called_again():
    for striker in strikes():
        made = pool(1)
        pids = made.pids
        striker.during(made.shutdown)
        made.shutdown()
        assert made.state == "STOPPED", striker.where
        gone(pids, 0.1)


@pytest.mark.full  # W10 strikes starts at every commit
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a destructor
def test_a_struck_start_leaves_nobody_and_nothing():
    Zygote.shared(()).warm(20.0)
    with pool(1, start="zygote"):
        pass
    before = len(descriptors())
    zygote = Zygote.shared(()).pid
    for striker in strikes(173):
        for made in striker.during(lambda: pool(1, start="zygote")):
            made.shutdown()
        gc.collect()
        children = Path(f"/proc/{zygote}/task/{zygote}/children").read_text().split()
        gone(map(int, children), 3.0)
        assert leftovers(os.getpid()) == [], striker.where
        after = len(descriptors())
        assert after <= before, striker.where
