"""Running a page's commands in one shell, in a folder of its own, as its reader would."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest
from doc_pages import ROOT, Block, Command, blocks, in_a_copy

LIMIT = 300.0
"""Seconds for all commands of a page; on every commit it is much less."""
_CHANGED = ("harness", "tests")
_MARK = "\x1e"


@dataclass(frozen=True)
class Ran:
    """A command that ran."""

    command: Command
    status: int
    output: str


def lay_out(page: Path, folder: Path) -> None:
    """Give a page what it needs: the tree by links, or a copy of it, and what it writes itself."""
    copied = _CHANGED if in_a_copy(page) else ()
    for each in ("README.md", "ci", "docs", "harness", "impl", "scenarios", "tests"):
        if each in copied:
            shutil.copytree(
                ROOT / each, folder / each, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            (folder / each).symlink_to(ROOT / each)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for block in blocks(page):
        if path := block.remarks.get("file"):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(block.text, "utf-8")
        elif "edit" in block.remarks:
            _edit(page, block, folder)


def _edit(page: Path, block: Block, folder: Path) -> None:
    made = subprocess.run(
        ["git", "apply", "-C1", "-"],
        input=block.text,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, f"{page.name}:{block.line}: {made.stderr}"


def run(
    commands: Sequence[Command],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    limit: float = LIMIT,
) -> list[Ran]:
    """Run these in one bash, so that what one leaves the next one finds.

    ``environment``: its environment; None: this interpreter's, with the folder's own packages.
    """
    script = "".join(
        f"printf '{_MARK}begin\\n'\n{command.words()}\nprintf '{_MARK}end %s\\n' $?\n"
        for command in commands
    )
    with (folder / "said").open("w+") as said:
        ended = _wait(["bash", "-c", script], folder, environment or _as_here(folder), said, limit)
        said.seek(0)
        text = said.read()
    last = commands[text.count(f"{_MARK}begin") - 1] if commands else None
    assert ended, f"after {limit:g} s this went on, from line {last and last.line}: {last}"
    parts = re.findall(f"{_MARK}begin\n(.*?){_MARK}end (\\d+)\n", text, re.DOTALL)
    assert len(parts) == len(commands), "the shell ended before its last command"
    return [
        Ran(command, int(status), output)
        for command, (output, status) in zip(commands, parts, strict=True)
    ]


def _wait(
    words: list[str], folder: Path, environment: Mapping[str, str], said: IO[str], limit: float
) -> bool:
    """Whether it came to its end; if not by the limit, it is ended with all that it has started."""
    with subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as shell:
        try:
            shell.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            return False
        except BaseException:
            os.killpg(shell.pid, signal.SIGKILL)
            raise
    return True


def _as_here(folder: Path) -> dict[str, str]:
    paths = [str(folder / "impl"), str(folder / "harness"), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": ":".join(filter(None, paths)),
        "PYTEST_ADDOPTS": "",
        "COLUMNS": "100",
    }


def compare(page: Path, command: Command, status: int, output: str) -> None:
    """A command ended as its page says, and what the page shows came."""
    where = f"{page.relative_to(ROOT)}:{command.line}: {command.text}"
    if status == 70 and "==" in command.text and not os.environ.get("CI"):
        pytest.skip(f"{where}: {output}")
    assert status == command.status, f"{where}\n{output}"
    absent = missing(command.shown, output)
    assert absent is None, f"{where}\nshows a line that did not come: {absent}\n{output}"


def missing(shown: Sequence[str], output: str) -> str | None:
    """The first shown line that the output does not have, in order; numbers may differ.

    ``…`` stands for anything, a line of its own for any lines.
    """
    left = [_plain(line) for line in output.splitlines()]
    for line in shown:
        if _plain(line) in ("", "…"):
            continue
        pattern = ".*".join(re.escape(part) for part in _plain(line).split("…"))
        while left and not re.fullmatch(pattern, left[0]):
            left.pop(0)
        if not left:
            return line
        left.pop(0)
    return None


def _plain(line: str) -> str:
    return re.sub(r"\d+(\.\d+)?", "0", " ".join(line.split()))
