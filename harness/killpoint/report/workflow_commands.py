"""Workflow commands of GitHub Actions: each line becomes an annotation of the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from killpoint.findings.rows import named_finding
from killpoint.report.gate import Gate
from killpoint.report.run_folder import StoredCase

_SHOWN = 10
"""GitHub shows so many of a level for a step, and drops the rest."""


def annotate(judged: Gate) -> list[str]:
    """An error for each new violation and each known failure that is gone; doubts are warnings."""
    errors = [_violation(case) for case in judged.new]
    errors += [
        _error(f"{known.name}: known failure no longer fails", f"{known.words()}; remove it")
        for known in judged.gone
    ]
    doubts = [
        _command("warning", f"{case.id}: {case.failure_class}", case.cause)
        for case in judged.doubtful
    ]
    return [*_few(errors, "error"), *_few(doubts, "warning")]


def failure(words: str) -> str:
    """The annotation of a run that could not be made."""
    return _error("killpoint could not do its work", words)


def _few(lines: Sequence[str], level: str) -> Iterator[str]:
    if len(lines) <= _SHOWN:
        yield from lines
        return
    yield from lines[: _SHOWN - 1]
    left = len(lines) - _SHOWN + 1
    yield _command(level, f"{left} more", f"and {left} more: the job's summary tells them all")


def _replay(file: str | None) -> str:
    return f"\nkillpoint replay {file}" if file else ""


def _violation(case: StoredCase) -> str:
    whose = f" ({named})" if (named := named_finding(case)) else ""
    return _error(f"{case.id}: {case.kind}{whose}", f"{case.cause}{_replay(case.replay)}")


def _error(title: str, words: str) -> str:
    return _command("error", title, words)


def _command(level: str, title: str, words: str) -> str:
    return f"::{level} title={_property(title)}::{_data(words)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
