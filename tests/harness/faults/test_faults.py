"""Each fault does its one thing to a role, and nothing to another."""

from __future__ import annotations

import signal
from typing import get_args

import pytest

from killpoint.errors import BadUsage
from killpoint.faults import FAULTS
from killpoint.scenario import FaultName


class Recorded:
    pid = 0
    hours = 2.0

    def __init__(self, at_point: bool) -> None:
        self.at_point = at_point
        self.held = False
        self.done: list[object] = []

    def signal(self, number: int) -> None:
        self.done.append(number)

    def release(self, action: str) -> None:
        self.done.append(action)

    def has_stopped(self) -> None:
        self.done.append("has stopped")

    def inject_in_role(self) -> None:
        self.done.append("obey")

    def apply_to_connections(self, fault: str) -> None:
        self.done.append(f"relay: {fault}")

    def fill_shm(self) -> None:
        self.done.append("fill")


def _act(name: str, *, at_point: bool) -> list[object]:
    target = Recorded(at_point)
    FAULTS[name].act(target)
    return target.done


@pytest.mark.parametrize(
    ("name", "at_point", "done"),
    [
        ("kill", False, [signal.SIGKILL]),
        ("kill", True, [signal.SIGKILL]),
        ("stop", False, [signal.SIGSTOP]),
        ("stop", True, ["has stopped"]),
        ("continue", False, [signal.SIGCONT]),
        ("continue", True, [signal.SIGCONT, "go"]),
        ("exit", False, ["obey"]),
        ("exit", True, ["exit"]),
        ("raise", True, ["raise"]),
        ("interrupt", True, ["interrupt"]),
        ("interrupt", False, [signal.SIGUSR1]),
        ("slow", False, ["obey"]),
        ("cut", False, ["relay: cut"]),
        ("heal", False, ["relay: heal"]),
        ("delay", False, ["relay: delay"]),
        ("reset", True, ["relay: reset"]),
        ("half-open", False, ["relay: half-open"]),
        ("jump-clock", False, ["obey"]),
        ("jump-clock", True, ["jump 2.0"]),
        ("starve", False, ["obey"]),
        ("fill-shm", False, ["fill"]),
        ("hold", True, []),
        ("sigterm", False, [signal.SIGTERM]),
        ("sigterm", True, [signal.SIGTERM, "go"]),
        ("sigint", False, [signal.SIGINT]),
        ("sigint", True, [signal.SIGINT, "go"]),
    ],
)
def test_a_fault_acts_once_on_its_role(name: str, at_point: bool, done: list[object]) -> None:
    assert _act(name, at_point=at_point) == done


@pytest.mark.parametrize("name", ["raise", "hold"])
def test_raising_and_holding_need_a_place(name: str) -> None:
    with pytest.raises(BadUsage, match="needs a point"):
        _act(name, at_point=False)


def test_a_role_has_no_tmpdir_that_could_be_filled() -> None:
    with pytest.raises(BadUsage, match="whole servers alone"):
        _act("fill-tmp", at_point=False)


def test_every_fault_a_scenario_can_name_exists_and_says_what_it_does() -> None:
    assert set(FAULTS) == set(get_args(FaultName))
    for name, fault in FAULTS.items():
        assert fault.name == name
        assert fault.summary


def test_only_what_ends_a_process_is_expected_to_end_one() -> None:
    assert {name for name, fault in FAULTS.items() if fault.ends} == {"kill", "exit"}


def test_what_is_held_does_not_stop_itself() -> None:
    target = Recorded(at_point=True)
    FAULTS["hold"].act(target)
    FAULTS["stop"].act(target)
    assert target.done == [signal.SIGSTOP]
