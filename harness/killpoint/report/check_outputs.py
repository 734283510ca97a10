"""Outputs of ``check`` for CI beside the card: known failures, JUnit, annotations, a summary."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TextIO

from killpoint.errors import BadUsage
from killpoint.report import job_summary, junit, known, run_folder, workflow_commands
from killpoint.report.gate import Gate, gate


def add_options(check: argparse.ArgumentParser) -> None:
    """The options of ``check`` that say what CI is left."""
    outlets = check.add_argument_group("for CI")
    outlets.add_argument(
        "--known", type=Path, metavar="FILE", help="known failures: the exit status forgives them"
    )
    outlets.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    outlets.add_argument(
        "--annotate",
        action=argparse.BooleanOptionalAction,
        default=os.environ.get("GITHUB_ACTIONS") == "true",
        help="print annotations for GitHub (default: in GitHub Actions)",
    )
    outlets.add_argument(
        "--summary",
        type=Path,
        metavar="FILE",
        help="append a summary in Markdown (default: $GITHUB_STEP_SUMMARY, if annotating)",
    )


class Outlets:
    """Outputs that one call of ``check`` was asked for."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Read the known failures, and see that files can be written, before anything is played.

        Raises:
            BadUsage: the file of known failures is wrong.
        """
        self._target: str = options.target
        self._junit: Path | None = options.junit
        self._annotate: bool = options.annotate
        own = os.environ.get("GITHUB_STEP_SUMMARY") if options.annotate else None
        self._summary: Path | None = options.summary or (Path(own) if own else None)
        self._known = known.load(options.known) if options.known else []
        for file in (self._junit, self._summary):
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)

    def leave(self, run: Path, out: TextIO) -> int:
        """Write everything for the run in a folder; the gate's exit status."""
        told = run_folder.read(run)
        judged = gate(told, self._known)
        if self._junit is not None:
            junit.write(told, self._junit, judged)
        if self._summary is not None:
            _append(self._summary, job_summary.markdown(told, judged))
        self._say(self._lines(judged), out)
        return judged.status

    @contextlib.contextmanager
    def or_why_not(self, out: TextIO) -> Generator[None]:
        """If nothing can be judged, write so into the files: a gate must not read older ones."""
        try:
            yield
        except BadUsage:
            raise  # it is told at once, to whoever wrote the command
        except Exception as error:
            self._fail(" ".join(str(error).split()) or type(error).__name__, out)
            raise

    def _fail(self, words: str, out: TextIO) -> None:
        with contextlib.suppress(OSError):
            if self._junit is not None:
                junit.write_failure(self._target, words, self._junit)
            if self._summary is not None:
                _append(self._summary, job_summary.failure(self._target, words))
        self._say([workflow_commands.failure(words)] if self._annotate else [], out)

    def _lines(self, judged: Gate) -> list[str]:
        return judged.lines() + (workflow_commands.annotate(judged) if self._annotate else [])

    def _say(self, lines: Iterable[str], out: TextIO) -> None:
        for line in lines:
            out.write(line + "\n")
        out.flush()


def _append(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as summary:
        summary.write(text)
