"""What counts as a hang: an operation of the target's, that got its time and does not come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from synthetic import scene

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.runner.hang_detection import HangDetector, Stalled
from killpoint.runner.observe.processor_time import ProcessorTime
from killpoint.runner.role_process import RoleProcess
from killpoint.runner.target_processes import TargetProcesses
from killpoint.scenario import AnyStep, Close, Exit, Receive, VerifyHeld, Wait, WaitBlocked

_ROLE = "reader-0"


@pytest.fixture(autouse=True)
def _briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("killpoint.runner.hang_detection._STUCK", 0.4)


class Denying(ProcessorTime):
    """A machine that keeps the role from running for so many seconds of each second."""

    def __init__(self, log: Log, share: float) -> None:
        super().__init__(log)
        self._began, self._share = time.monotonic(), share

    def denied(self, name: str) -> float:
        return self._share * (time.monotonic() - self._began)


class Bench:
    """A role that does nothing, in the eyes of what waits for it."""

    def __init__(self, folder: Path, pid: int, share: float = 0.0) -> None:
        self.folder = folder
        self.log = Log(folder / "director.jsonl", "director")
        self.actor = RoleProcess(_ROLE, pid, pid)
        self.at: dict[float, Any] = {}
        """What happens so many seconds after the wait has begun."""
        self._began = time.monotonic()
        self.waiting = HangDetector(
            scene(readers=1),
            self.log,
            {_ROLE: self.actor},
            TargetProcesses([], self.log),
            self._serve,
            Denying(self.log, share),
            folder,
        )

    def does(self, step: AnyStep, *, since: float = 0.0) -> None:
        """It is inside this, and has been for so many seconds."""
        self.actor.outstanding[1] = step
        self.actor.begun, self.actor.begun_at = 1, time.monotonic() - since

    def hangs(self, within: float) -> list[str]:
        """What the record says that it hung in, after a wait; and how long that took."""
        self._began = time.monotonic()
        self.waiting.wait(Wait((_ROLE,), within=within))
        self.took = time.monotonic() - self._began
        return [event.text("op") for event in History.read(self.folder).of("hang")]

    def _serve(self, seconds: float) -> None:
        for when in [w for w in self.at if time.monotonic() - self._began >= w]:
            self.at.pop(when)()
        if self.actor.pid and not Path(f"/proc/{self.actor.pid}").exists():
            self.actor.status = 9
        time.sleep(min(seconds, 0.02))


@contextmanager
def _asleep() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with _asleep() as process:
        found = Bench(tmp_path, process.pid)
        found.at[0.0] = lambda: None
        reaped = lambda: process.poll()  # noqa: E731 # the zygote reaps what the runner kills
        found.at |= {0.1 * turn: reaped for turn in range(1, 200)}
        yield found


def test_who_is_still_inside_the_targets_operation_hangs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("killpoint.runner.hang_detection._MOST", 100.0)
    bench.does(Close((_ROLE,)), since=5.0)
    assert bench.hangs(0.3) == ["close"]
    assert bench.took < 15.0


def test_an_operation_that_has_just_begun_is_given_its_time(bench: Bench) -> None:
    bench.does(Close((_ROLE,)))
    bench.actor.begun_at = time.monotonic() + 0.5
    bench.at[0.7] = bench.actor.outstanding.clear
    assert bench.hangs(0.5) == []


def test_an_interpreter_that_ends_is_given_longer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("killpoint.runner.hang_detection._STUCK_AT_EXIT", 1.0)
    bench.does(Exit((_ROLE,)))
    bench.at[0.8] = bench.actor.outstanding.clear
    assert bench.hangs(0.2) == []


def test_who_makes_progress_does_not_hang(bench: Bench) -> None:
    record = Log(bench.folder / f"{_ROLE}.jsonl", _ROLE)
    bench.does(Receive(60, (_ROLE,)), since=5.0)
    bench.at |= {0.1 * turn: lambda: record.write("got", seq=1) for turn in range(1, 8)}
    bench.at[0.9] = bench.actor.outstanding.clear
    assert bench.hangs(0.5) == []
    record.close()


def test_an_operation_is_waited_for_until_its_own_deadline_has_passed(bench: Bench) -> None:
    bench.does(Receive(1, (_ROLE,), timeout=0.5))
    bench.at[0.7] = bench.actor.outstanding.clear
    assert bench.hangs(0.4) == []


def test_what_the_machine_took_is_granted_on_top(tmp_path: Path) -> None:
    with _asleep() as process:
        bench = Bench(tmp_path, process.pid, share=0.4)
        bench.does(Close((_ROLE,)), since=5.0)
        bench.at[0.7] = bench.actor.outstanding.clear
        assert bench.hangs(0.3) == []


def test_what_is_granted_has_an_end(tmp_path: Path) -> None:
    with _asleep() as process:
        bench = Bench(tmp_path, process.pid, share=1.0)
        reaped = lambda: process.poll()  # noqa: E731 # as above
        bench.at |= {0.1 * turn: reaped for turn in range(1, 100)}
        bench.does(Close((_ROLE,)), since=5.0)
        assert bench.hangs(0.2) == ["close"]
        assert bench.took < 10.0


def test_the_harnesss_own_operation_is_not_the_targets(bench: Bench) -> None:
    bench.does(VerifyHeld((_ROLE,)), since=5.0)
    with pytest.raises(
        Stalled, match=r"reader-0 did not come back from the harness's own verify-held"
    ):
        bench.hangs(0.2)
    assert not list(History.read(bench.folder).of("hang"))


def test_who_has_ended_does_not_hang(tmp_path: Path) -> None:
    with _asleep() as process:
        bench = Bench(tmp_path, process.pid)
        bench.does(Close((_ROLE,)), since=5.0)
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie that nobody reaped
        bench.at[0.6] = process.wait
        assert bench.hangs(0.2) == []
        assert not bench.actor.alive


def test_who_comes_back_while_another_one_is_looked_at_does_not_hang(bench: Bench) -> None:
    with _asleep() as process:
        other = RoleProcess("reader-1", process.pid, process.pid)
        bench.waiting._actors["reader-1"] = other  # pyright: ignore[reportPrivateUsage] # a second role
        bench.does(Close((_ROLE,)), since=5.0)
        other.outstanding[2] = Close(("reader-1",))
        killed = bench.actor.signal

        def strike(number: int) -> None:
            other.outstanding.clear()
            killed(number)

        bench.actor.signal = strike  # type: ignore[method-assign] # the other one comes back then
        bench.waiting.wait(Wait((_ROLE, "reader-1"), within=0.2))
    hung = [event.text("target") for event in History.read(bench.folder).of("hang")]
    assert hung == [_ROLE]


def test_who_comes_back_while_it_is_looked_at_does_not_hang(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(_pid: int) -> dict[str, object]:
        bench.at[0.0] = bench.actor.outstanding.clear
        return {}

    monkeypatch.setattr("killpoint.runner.observe.diagnosis.seen", look)
    bench.does(Close((_ROLE,)), since=5.0)
    assert bench.hangs(0.2) == []


def test_a_role_that_sleeps_in_its_operation_has_settled(bench: Bench) -> None:
    bench.does(Receive(1))
    bench.waiting.settle(WaitBlocked((_ROLE,)))
    assert [event.text("state") for event in History.read(bench.folder).of("settled")] == ["S"]


def test_a_role_that_is_kept_from_running_has_not_settled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.does(Receive(1))
    starved = {"1": (True, 5)}
    monkeypatch.setattr("killpoint.runner.observe.processor_time._threads_of", lambda _: starved)
    with pytest.raises(Stalled, match=f"{_ROLE} did not begin to wait"):
        bench.waiting.settle(WaitBlocked((_ROLE,), within=0.5))


def test_a_role_that_goes_from_one_operation_to_the_next_has_not_settled(bench: Bench) -> None:
    def next_one(number: int) -> None:
        bench.actor.outstanding[number] = Receive(1)
        bench.actor.begun = number

    bench.does(Receive(1))
    bench._began = time.monotonic()
    bench.at = {0.05 * n: lambda n=n: next_one(n) for n in range(2, 40)}
    with pytest.raises(Stalled):
        bench.waiting.settle(WaitBlocked((_ROLE,), within=0.5))
