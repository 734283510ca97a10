"""Priority over what is looked at: given where it is permitted, taken back, inherited as said."""

import os
import subprocess
import sys
import threading

import pytest

from killpoint.runner.processes.priority import ahead

_TOLD = "import os; print(os.sched_getscheduler(0))"


@pytest.mark.parametrize(("children", "theirs"), [(True, os.SCHED_RR), (False, os.SCHED_OTHER)])
def test_it_lasts_for_the_block_and_children_have_it_if_they_are_to(
    children: bool, theirs: int
) -> None:
    before = os.sched_getscheduler(0)
    with ahead(children=children) as given:
        if not given:
            pytest.skip("this user may not have real-time priority")
        assert os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR
        told = subprocess.run(
            [sys.executable, "-c", _TOLD], capture_output=True, text=True, check=True, timeout=60
        )
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
        thread.start()
        thread.join()
    assert (int(told.stdout), found) == (theirs, [theirs])
    assert os.sched_getscheduler(0) == before


def test_without_the_right_it_is_said_and_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refused)
    with ahead(children=True) as given:
        assert not given


def test_who_may_not_take_the_flag_of_forks_back_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []

    def limited(_pid: int, policy: int, _how: object) -> None:
        if given and not policy & os.SCHED_RESET_ON_FORK:
            raise PermissionError
        given.append(policy)

    monkeypatch.setattr(os, "sched_setscheduler", limited)
    before = os.sched_getscheduler(0)
    with ahead(children=False) as first:
        assert first
    flag = os.SCHED_RESET_ON_FORK
    assert given == [os.SCHED_RR | flag, before | flag]
