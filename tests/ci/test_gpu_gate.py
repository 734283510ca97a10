"""The gate for GPU runners says in one line why it cannot run, before it installs anything."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "dirname", "pwd", "tr", "grep", "cat", "date", "sed")
SMI = """#!/bin/bash
case "$*" in
    *compute-apps*) printf '%b' "$APPS" ;;
    *--query-gpu=uuid\\ *) printf '%b' "$GPUS" ;;
    *) printf 'nvidia-smi was asked: %s\\n' "$*" >&2; exit 9 ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with the few tools that the gate needs, and a project that cannot be set up."""
    for tool in TOOLS:
        found = shutil.which(tool)
        if found:
            (tmp_path / tool).symlink_to(found)
    (tmp_path / "project" / "ci").mkdir(parents=True)
    shutil.copy(ROOT / "ci" / "gpu-gate.sh", tmp_path / "project" / "ci")
    set_up = tmp_path / "project" / "ci" / "setup.sh"
    set_up.write_text("echo set-up was reached on $CUDA_VISIBLE_DEVICES >&2; exit 70")
    return tmp_path


def gate(machine: Path, *devices: str, **smi: str) -> subprocess.CompletedProcess[str]:
    if smi:
        (machine / "nvidia-smi").write_text(SMI)
        (machine / "nvidia-smi").chmod(0o755)
    script = machine / "project" / "ci" / "gpu-gate.sh"
    return subprocess.run(
        ["bash", script, *devices],
        env={"PATH": str(machine), "HOME": os.devnull} | smi,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )


@pytest.mark.parametrize(
    ("smi", "words"),
    [
        ({}, "no GPU here: there is no nvidia-smi"),
        ({"GPUS": "", "APPS": ""}, "no GPU here: nvidia-smi knows none"),
        ({"GPUS": "GPU-a\\nGPU-b\\n", "APPS": "GPU-b, 77\\n"}, "in use by others (device,pid): "),
    ],
)
def test_without_a_gpu_of_its_own_it_refuses_in_one_line(
    machine: Path, smi: dict[str, str], words: str
) -> None:
    found = gate(machine, **smi)
    assert found.returncode == 3
    assert found.stdout == ""
    assert found.stderr.count("\n") == 1
    assert found.stderr.startswith(f"gpu-gate: {words}")


def test_who_uses_another_gpu_is_nobodys_concern(machine: Path) -> None:
    found = gate(machine, "0", GPUS="GPU-a\\n", APPS="GPU-b, 77\\n")
    assert (found.returncode, found.stderr) == (70, "set-up was reached on GPU-a\n")
