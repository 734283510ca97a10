"""pip for an environment: its log is kept, its errors are told, and it cannot hang."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path
from typing import Any

import pytest

from killpoint.errors import CannotWork
from killpoint.systems.server.environments import pip


def _run(tmp_path: Path, script: str, **more: Any) -> tuple[pip.Run, list[str]]:
    """A run of something that is no pip, but is started as it is."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    told: list[str] = []
    return pip.Run(python, tmp_path / "log", told.append, **more), told


def test_its_output_and_its_command_line_are_kept(tmp_path: Path) -> None:
    run, told = _run(tmp_path, 'echo "Installing collected packages: a, b"; echo done >&2')
    pip.install(run, "packages", ["a==1"], 2)
    log = run.log.read_text()
    assert "-I -m pip install --no-compile a==1" in log
    assert log.endswith("Installing collected packages: a, b\ndone\n")
    assert [text.rsplit(",", 1)[0] for text in told] == ["packages: unpacking 2 packages"]


def test_its_own_error_is_told_with_the_place_of_the_log(tmp_path: Path) -> None:
    run, _ = _run(tmp_path, 'echo "ERROR: No matching distribution"; echo "ERROR: 2nd"; exit 1')
    with pytest.raises(CannotWork) as failed:
        pip.install(run, "torch", ["torch==1"], 1)
    assert str(failed.value) == (
        f"torch: No matching distribution (pip's status 1; log: {run.log})"
    )


@pytest.mark.parametrize(
    ("limits", "words"),
    [({"silent": 0.5}, "pip was silent for 0 s"), ({"within": 0.5}, "pip took over 0 s")],
)
def test_one_that_hangs_is_ended_with_what_it_started(
    tmp_path: Path, limits: dict[str, float], words: str
) -> None:
    run, _ = _run(tmp_path, f"sleep 1000 & echo $! > {tmp_path}/child; wait", **limits)
    began = time.monotonic()
    with pytest.raises(CannotWork, match=words):
        pip.download(run, "packages", ["a==1"])
    assert time.monotonic() - began < 60
    child = int((tmp_path / "child").read_text())
    end = time.monotonic() + 60
    while _runs(child):
        assert time.monotonic() < end, "waited 60 s for the end of what pip had started"
        select.select([], [], [], 0.02)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_another_projects_settings_do_not_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PIP_CONSTRAINT", "/elsewhere/limits")
    monkeypatch.setenv("PIP_CERT", "/certificates")
    run, _ = _run(tmp_path, "env")
    pip.install(run, "packages", [], 0)
    lines = run.log.read_text().splitlines()
    assert "PIP_CERT=/certificates" in lines
    assert not [line for line in lines if "/elsewhere" in line]


def test_it_inherits_the_lock(tmp_path: Path) -> None:
    run, _ = _run(tmp_path, f"ls -l /proc/$$/fd > {tmp_path}/fds")
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        pip.install(pip.Run(run.python, run.log, run.tell, (lock,)), "packages", [], 0)
    finally:
        os.close(lock)
    assert f"{tmp_path}/lock" in (tmp_path / "fds").read_text()
