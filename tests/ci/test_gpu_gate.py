"""The gate for GPU runners: alone on its devices; what it starts ends with it; memory returns."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = (
    "awk",
    "bash",
    "cat",
    "date",
    "dirname",
    "env",
    "flock",
    "grep",
    "join",
    "mkdir",
    "pwd",
    "rm",
)
TOOLS += ("sed", "sleep", "sort", "tr")
SMI = """#!/bin/bash
case "$*" in
    *compute-apps*) printf '%b' "$APPS" ;;
    *--query-gpu=uuid\\ *) printf '%b' "$GPUS" ;;
    *--query-gpu=uuid,memory.used\\ *) cat "$MEMORY" ;;
    *--query-gpu=name,*) echo 'H1, 550.1, 80000' ;;
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


def environment(machine: Path) -> dict[str, str]:
    return {"PATH": str(machine), "HOME": os.devnull, "TMPDIR": str(machine)}


def gate(machine: Path, *devices: str, **smi: str) -> subprocess.CompletedProcess[str]:
    if smi:
        (machine / "nvidia-smi").write_text(SMI)
        (machine / "nvidia-smi").chmod(0o755)
    script = machine / "project" / "ci" / "gpu-gate.sh"
    return subprocess.run(
        ["bash", script, *devices],
        env=environment(machine) | smi,
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


def running(pid: int) -> bool:
    """Whether it is there, and not only waits to be reaped."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def awaited(file: Path) -> str:
    """What somebody writes there soon."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if file.exists() and (text := file.read_text()).endswith("\n"):
            return text
        time.sleep(0.02)
    raise AssertionError(f"nobody wrote {file} in 10 s")


ALONE = {"GPUS": "GPU-a\\n", "APPS": "", "GPU_GATE_MEMORY_WITHIN": "1"}
"""One device, and nobody on it."""


@pytest.fixture
def gpu(machine: Path) -> dict[str, str]:
    """That device, on a machine where set-up works, and a suite and a check that do ``$DOES``."""
    (machine / "memory").write_text("GPU-a, 400\n")
    (machine / "project" / "ci" / "setup.sh").write_text("exit 0")
    binaries = machine / "project" / ".venv" / "bin"
    binaries.mkdir(parents=True)
    torch = 'case "$*" in *torch*) exit 0 ;; esac\n'
    for name in ("python", "killpoint"):
        says = f'#!/bin/bash\n{torch}echo "{name} $*" >>"{machine}/called"\neval "$DOES"\n'
        (binaries / name).write_text(says)
        (binaries / name).chmod(0o755)
    places = {"MEMORY": str(machine / "memory"), "GPU_GATE_OUT": str(machine / "out")}
    return ALONE | places | {"DOES": "exit 0"}


def facts(machine: Path) -> str:
    return (machine / "out" / "facts.txt").read_text()


def test_what_holds_leaves_its_facts_and_0(machine: Path, gpu: dict[str, str]) -> None:
    found = gate(machine, **gpu)
    assert (found.returncode, found.stderr) == (0, "")
    assert "MiB     before: GPU-a,400" in facts(machine)
    assert re.search(r"status  0 *$", facts(machine), re.MULTILINE)
    assert "-m pytest -m gpu" in (machine / "called").read_text()


@pytest.mark.parametrize(("suite", "status"), [(1, 1), (3, 70), (5, 3)])
def test_a_suite_that_could_not_run_is_infrastructure_and_no_verdict(
    machine: Path, gpu: dict[str, str], suite: int, status: int
) -> None:
    assert gate(machine, **gpu | {"DOES": f"exit {suite}"}).returncode == status


def test_a_target_is_judged_with_what_comes_after_the_dashes(
    machine: Path, gpu: dict[str, str]
) -> None:
    does = 'echo \'<failure type="hang" message="x">\' >"$GPU_GATE_OUT/junit.xml"; exit 1'
    found = gate(machine, "0", "--", "--target", "t:x", **gpu | {"DOES": does})
    assert found.returncode == 1
    called = (machine / "called").read_text().split()
    assert called[:3] == ["killpoint", "check", "--device"]
    assert called[-2:] == ["--target", "t:x"]
    assert "status  1 hang" in facts(machine)


@pytest.mark.parametrize("status", [3, 70])
def test_the_status_of_the_check_is_that_of_the_gate(
    machine: Path, gpu: dict[str, str], status: int
) -> None:
    assert gate(machine, "--", **gpu | {"DOES": f"exit {status}"}).returncode == status


def test_memory_that_stays_is_a_failure(machine: Path, gpu: dict[str, str]) -> None:
    found = gate(machine, **gpu | {"DOES": "echo GPU-a, 900 >$MEMORY"})
    assert found.returncode == 1
    assert "memory was not given back within 1 s: GPU-a: 400 -> 900 MiB" in found.stderr


def test_memory_is_awaited_before_it_is_missed(machine: Path, gpu: dict[str, str]) -> None:
    # By a process of nobody's, as a driver's is: the gate ends its own first.
    later = "echo here; exec >/dev/null 2>&1; sleep 0.5; echo GPU-a, 400 >$MEMORY"
    does = f"echo GPU-a, 900 >$MEMORY; read < <(exec env -u KILLPOINT_GATE bash -c '{later}')"
    assert gate(machine, **gpu | {"DOES": does, "GPU_GATE_MEMORY_WITHIN": "20"}).returncode == 0


def test_a_process_that_stays_is_ended_and_told_and_nobody_elses_is(
    machine: Path, gpu: dict[str, str]
) -> None:
    other = subprocess.Popen([shutil.which("sleep") or "sleep", "60"])
    try:
        does = "sleep 61 >/dev/null 2>&1 & disown"
        found = gate(machine, **gpu | {"DOES": does})
        assert found.returncode == 1
        assert re.search(r"processes stayed, and were ended: \d+ \(sleep 61 \)", found.stderr)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_cancelled_gate_takes_what_it_started_with_it(machine: Path, gpu: dict[str, str]) -> None:
    (machine / "nvidia-smi").write_text(SMI)
    (machine / "nvidia-smi").chmod(0o755)
    does = "echo $BASHPID >$TMPDIR/suite; trap '' TERM; sleep 62"
    run = subprocess.Popen(
        ["bash", machine / "project" / "ci" / "gpu-gate.sh"],
        env=environment(machine) | gpu | {"DOES": does},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    suite = int(awaited(machine / "suite"))
    run.send_signal(signal.SIGTERM)
    assert run.wait(20) == 143
    assert not running(suite)


def test_two_gates_are_not_at_one_device(machine: Path, gpu: dict[str, str]) -> None:
    second = machine / "second"
    nested = f'bash "{machine}/project/ci/gpu-gate.sh" 2>"{second}"; echo $? >>"{second}"'
    assert gate(machine, **gpu | {"DOES": nested}).returncode == 0
    assert second.read_text() == "gpu-gate: in use by another gate: GPU-a\n3\n"
