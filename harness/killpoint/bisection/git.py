"""The few things that are asked of git, none of which touches the tree that it is asked about."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from killpoint.errors import CannotWork

_WITHIN = 600.0
"""Seconds: a large tree on a slow disk is checked out in less."""
_FINISHING = 60.0
"""Seconds that an interrupted git has to end whole."""
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
"""Set where we were begun by a hook of another tree, which git would take for this one."""


class Refused(Exception):
    """Git said no; its last line says why."""


def git(tree: Path, *words: str) -> str:
    """Return what git prints about a tree, without the end of the last line.

    No hook of the tree is run. An interrupt does not reach git: it ends whole, and then we do.

    Raises:
        Refused: git ended with another status than 0.
        CannotWork: there is no git here, or git did not end in time.
    """
    command = ["git", "-C", str(tree), "-c", f"core.hooksPath={os.devnull}", *words]
    environment = {name: text for name, text in os.environ.items() if name not in _ELSEWHERE}
    environment["LC_ALL"] = "C"
    try:
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            process_group=0,  # a terminal's Ctrl-C would leave a worktree half made
        )
    except OSError as error:
        raise CannotWork(f"git cannot be run: {error}") from error
    try:
        out, said = child.communicate(timeout=_WITHIN)
    except BaseException as error:
        _finish(child)
        if isinstance(error, subprocess.TimeoutExpired):
            raise CannotWork(f"git {words[0]} had not ended after {_WITHIN:g} s") from error
        raise
    if child.returncode:
        raise Refused((said.strip().splitlines() or [f"status {child.returncode}"])[-1])
    return out.rstrip("\n")


def _finish(child: subprocess.Popen[str]) -> None:
    try:
        child.communicate(timeout=_FINISHING)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
