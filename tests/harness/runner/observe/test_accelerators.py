"""GPUs and their memory, told by a driver's tool that says what it is told to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from killpoint.ledger import Ledger
from killpoint.runner.observe import accelerators

MIB = 1 << 20


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each answer is a line of this file, the last one for ever."""
    told = tmp_path / "told"
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        f'#!/bin/sh\nhead -n 1 {told}\n[ "$(wc -l < {told})" -gt 1 ] && sed -i 1d {told}\nexit 0\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return told


def test_memory_is_told_by_device(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.write_text("GPU-a, 512\n")
    assert accelerators.used() == {"GPU-a": 512 * MIB}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-b")
    assert accelerators.used() == {}


def test_memory_that_comes_back_was_not_kept(driver: Path) -> None:
    driver.write_text("GPU-a, 900\nGPU-a, 520\n")
    assert accelerators.kept({"GPU-a": 512 * MIB}, 2.0) == 0


def test_memory_that_stays_is_what_a_play_has_left(driver: Path) -> None:
    driver.write_text("GPU-a, 900\n")
    kept = accelerators.kept({"GPU-a": 500 * MIB}, 0.1)
    assert kept == 400 * MIB
    ledger = Ledger(gpu_bytes=kept)
    assert not ledger.empty()
    assert ledger.words() == "400 MiB of GPU memory"


def test_without_the_tool_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert accelerators.used() == {}
    assert accelerators.kept({}, 0.0) == 0


def test_hidden_gpus_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not accelerators.present()
