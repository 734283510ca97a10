"""A device that was asked for is here and reaches the workers, or one line says why not."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from killpoint import cli, plugin
from killpoint.errors import CannotWork
from killpoint.judgement import judge
from killpoint.runner.observe import gpus
from killpoint.runner.processes.target_agent import DEVICE, PLAY
from killpoint.scenario import PoolStart, Scenario
from killpoint.search.case_run import CaseRun
from killpoint.systems.pool import payload
from killpoint.systems.pool.worker_class import PoolWorker
from killpoint.targets.protocol import PoolShape, QueueShape
from killpoint.targets.refengine import pool


class Nvml:
    """A driver with so many devices."""

    def __init__(self, count: int = 0, *, begins: int = 0, counts: int = 0) -> None:
        self.count, self.begins, self.counts = count, begins, counts
        self.shut = 0

    def __call__(self, name: str) -> Nvml:
        assert name == gpus.NVML
        return self

    def nvmlInit_v2(self) -> int:
        return self.begins

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        ctypes.cast(count, ctypes.POINTER(ctypes.c_uint)).contents.value = self.count
        return self.counts

    def nvmlShutdown(self) -> int:
        self.shut += 1
        return 0


def _nowhere(name: str) -> Any:
    raise OSError(f"{name}: cannot open shared object file")


def test_the_driver_says_how_many_there_are() -> None:
    driver = Nvml(3)
    assert gpus.cuda_devices(driver) == 3
    assert driver.shut == 1
    gpus.require("cuda", driver)


@pytest.mark.parametrize(
    ("driver", "why"),
    [
        (_nowhere, "no driver is here"),
        (Nvml(begins=9), "cannot be asked: NVML error 9"),
        (Nvml(counts=2), "cannot be counted: NVML error 2"),
        (Nvml(0), "no device here"),
    ],
)
def test_without_one_a_line_says_why(driver: Any, why: str) -> None:
    with pytest.raises(CannotWork, match=why):
        gpus.require("cuda", driver)
    gpus.require("cpu", driver)  # nobody is asked


def test_the_command_line_ends_with_70_and_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(judge, "require", lambda device: gpus.require(device, _nowhere))
    out = ["--out", str(tmp_path / "runs")]
    assert cli.main(["check", "--device", "cuda", "--only", "W1", *out]) == 70
    said = capsys.readouterr().err
    assert said.startswith("device cuda: no driver is here")
    assert said.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_pytest_is_told_before_anything_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "require", lambda device: gpus.require(device, _nowhere))
    plugins = SimpleNamespace(get_plugin=lambda _name: None)
    config: Any = SimpleNamespace(pluginmanager=plugins, getoption=lambda _name: "cuda", stash={})
    config.addinivalue_line = lambda _name, _line: None
    with pytest.raises(pytest.UsageError, match="no driver is here"):
        plugin.pytest_configure(config)


class Noting:
    """A player that only takes note of what it is to play."""

    def __init__(self) -> None:
        self.shapes: list[PoolShape | None] = []

    def play(self, scenario: Scenario) -> Any:
        self.shapes.append(scenario.pool)
        raise CannotWork("enough")

    def forget(self, play: Any) -> None:
        """Nothing was played."""


def test_a_trial_on_gpus_has_its_pools_there_and_leaves_the_rest() -> None:
    player = Noting()
    for device in ("cuda", "cpu"):
        case_run = CaseRun("W1/x", player, seed=0, full=False, folder=None, device=device)
        for found in (
            Scenario("W1/x", ["W1"], [PoolStart()], pool=PoolShape(3)),
            Scenario("R3/x", ["R3"], [], shape=QueueShape(readers=1)),
        ):
            for play in (case_run.play, case_run.dry_run):
                with pytest.raises(CannotWork, match="enough"):
                    play(found)
    there, here = PoolShape(3, device="cuda"), PoolShape(3)
    assert player.shapes == [there, there, None, None, here, here, None, None]


def test_the_reference_places_its_workers_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(pool, "Executor", lambda *_args, device, **_more: asked.append(device))
    for device in ("cpu", "cuda"):
        pool.PoolOfRefengine().pool_start(PoolShape(device=device), "m:C", None)
    assert asked == ["cpu", "cuda"]


@pytest.mark.parametrize(("device", "taken"), [("cuda", [1, "cuda"]), ("cpu", [])])
def test_a_worker_takes_its_gpu_of_fewer(
    monkeypatch: pytest.MonkeyPatch, device: str, taken: list[object]
) -> None:
    took: list[object] = []
    cuda = SimpleNamespace(device_count=lambda: 2, set_device=took.append)
    torch = SimpleNamespace(cuda=cuda, zeros=lambda _size, device: took.append(device))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setenv(DEVICE, device)
    monkeypatch.delenv(PLAY, raising=False)
    before = payload.take_stand(None)
    try:
        PoolWorker(3, 4).init_device()
    finally:
        payload.take_stand(before)
    assert took == taken
