"""How a worker is brought to leave, and how its end is known (W3, W5)."""

import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.executor import process
from refengine.executor.parent_monitor import ShutdownRequest, ShutdownRequested
from refengine.executor.process import ChildProcess, has_ended, kill_group, send_signal

from ...roles import Role


class TestChildProcess:
    @pytest.fixture
    def child(self):
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            while True:
                signal.pause()
        made = ChildProcess(pid)
        yield made
        if made.pidfd.fileno() >= 0:
            send_signal(made, 9)
            has_ended(made, 5.0)
            made.outcome(0.0)
            made.close()

    def test_its_time_is_in_milliseconds(self, child, monkeypatch):
        asked: list[float] = []
        poller = SimpleNamespace(register=lambda *_: None, poll=asked.append)
        with monkeypatch.context() as patch:
            patch.setattr(process, "select", SimpleNamespace(poll=lambda: poller, POLLIN=1))
            assert not has_ended(child)
            assert not has_ended(child, 0.5)
            zero: Any = SimpleNamespace(pidfd=SimpleNamespace(fileno=lambda: 0))
            assert not has_ended(zero)  # a number like any other
        assert asked == [0.0, 500.0, 0.0]

    @pytest.mark.parametrize("code", [22, 1])
    def test_an_older_kernel_is_asked_by_number(self, child, monkeypatch, code):
        did: list[Any] = []

        def by_descriptor(fd: int, number: int, info: Any = None, flags: int = 0) -> None:
            did.append((number, flags))
            if flags:
                raise OSError(code, "no such flag")

        with monkeypatch.context() as patch:
            patch.setattr(process.signal, "pidfd_send_signal", by_descriptor)
            patch.setattr(process.os, "killpg", lambda pid, number: did.append(pid))
            kill_group(child)
        assert did == [(9, 4), *[child.pid] * (code == 22), (9, 0)]


class TestShutdownRequest:
    def test_it_is_told_once_and_wakes_whoever_waits(self):
        shutdown_request, woken = ShutdownRequest(), list[int]()
        shutdown_request.on_request(lambda: woken.append(1))
        assert (
            shutdown_request.requested,
            shutdown_request.reason,
            shutdown_request.status,
            woken,
        ) == (False, "", 0, [])
        assert shutdown_request.request("the end", 3)
        assert not shutdown_request.request("another", 4)
        assert (
            shutdown_request.requested,
            shutdown_request.reason,
            shutdown_request.status,
            woken,
        ) == (True, "the end", 3, [1])
        shutdown_request.on_request(lambda: woken.append(2))
        assert woken == [1, 2]
        other = ShutdownRequest()
        other.request("by itself")
        assert other.status == 0

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_raises_once(self, number):
        def child(say: Any) -> None:
            shutdown_request = ShutdownRequest()
            shutdown_request.handle_signals()
            try:
                signal.raise_signal(number)
            except ShutdownRequested as leave:
                say([leave.code, shutdown_request.reason, shutdown_request.status])
            for each in (signal.SIGTERM, signal.SIGINT):
                signal.raise_signal(each)
            say("still here")

        with Role(child) as role:
            assert role.finish() == [
                [128 + number, signal.Signals(number).name, 128 + number], "still here",
            ]  # fmt: skip
