"""Ray is an extra: nothing but ``--ray`` imports it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from killpoint.campaign.item import Item
from killpoint.campaign.ray_cluster import cores_for, gpus_for
from killpoint.campaign.work_order import WorkOrder
from killpoint.cli import main


def _order(case: str, **more: str) -> WorkOrder:
    shrinks = case if "scenario" in more else ""
    return WorkOrder(
        Item(case, shrinks=shrinks), "t", "cpu", 9.0, scenario=more.get("scenario", "")
    )


def test_what_is_played_on_a_gpu_asks_for_one_where_there_are_any() -> None:
    on_gpu = _order("K1/cuda-any-tensors")
    found_there = _order("L1/every-play", scenario='device = "cuda"\n')
    on_cpu = _order("R1/two-readers")
    orders = [on_gpu, found_there, on_cpu]
    assert [gpus_for(order, 2.0) for order in orders] == [1.0, 1.0, 0.0]
    assert [gpus_for(order, 0.0) for order in orders] == [0.0, 0.0, 0.0]
    on_cpu.device = "cuda"
    assert gpus_for(on_cpu, 1.0) == 1.0


def test_a_play_asks_for_half_a_core_and_a_search_for_what_it_can_use() -> None:
    play, search = Item("R1/two-readers"), Item("R5/slot-reuse")
    assert [cores_for(play, 4.0), cores_for(search, 4.0), cores_for(search, 64.0)] == [
        0.5,
        4.0,
        8.0,
    ]


def test_without_ray_only_the_option_fails_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    command = ["campaign", "--budget", "1s", "--ray", "auto", "--out", str(tmp_path / "it")]
    assert main(command) == 2
    assert "pip install 'killpoint[ray]'" in capsys.readouterr().err


def test_the_command_line_imports_no_ray() -> None:
    probe = (
        "import sys, killpoint.cli, killpoint.campaign.worker_pool; sys.exit('ray' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
