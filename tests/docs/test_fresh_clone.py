"""The tour as a stranger takes it: from a fresh clone, with an empty home and an empty cache."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from doc_pages import ROOT, Command, blocks
from doc_runs import compare, run

_TOUR = ROOT / "docs" / "tour.md"
_WITHIN = 300.0


def _as_a_stranger(folder: Path) -> dict[str, str]:
    """Nothing of this environment but where this machine's packages come from."""
    settings = Path.home() / ".config" / "pip" / "pip.conf"
    for each in ("home", "cache"):
        (folder / each).mkdir()
    return {name: value for name, value in os.environ.items() if name.startswith("PIP_")} | {
        **({"PIP_CONFIG_FILE": str(settings)} if settings.exists() else {}),
        "HOME": str(folder / "home"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PATH": f"{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "LANG": "C.UTF-8",
        "COLUMNS": "100",
    }


def _typed(folder: Path) -> list[Command]:
    """Set-up, then the files that the reader writes, then all else."""
    typed: list[Command] = []
    for block in blocks(_TOUR):
        if path := block.remarks.get("file"):
            (folder / path).write_text(block.text, "utf-8")
            typed.append(Command(block.line, f"cp {folder / path} .", ()))
        for command in block.commands():
            text = command.text.replace("REPOSITORY", f"file://{ROOT}")
            typed.append(Command(command.line, text, command.shown, command.status))
    return typed


@pytest.mark.full
@pytest.mark.network
def test_the_tour_takes_less_than_five_minutes_of_a_fresh_clone(tmp_path: Path) -> None:
    if subprocess.run(["git", "rev-parse"], cwd=ROOT, capture_output=True).returncode:
        pytest.skip("no repository to clone from")
    began = time.monotonic()
    for ran in run(_typed(tmp_path), tmp_path, _as_a_stranger(tmp_path)):
        compare(_TOUR, ran.command, ran.status, ran.output)
    took = time.monotonic() - began
    print(f"from clone to the end of the tour: {took:.0f} s")
    assert took < _WITHIN
