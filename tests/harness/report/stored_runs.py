"""Runs as they are stored, made up for the tests of reports."""

from pathlib import Path

from killpoint.report.stored import StoredCase, StoredRun, StoredTarget, StoredVerdict
from killpoint.verdict import CaseWord, VerdictWord

_CASE: dict[str, CaseWord] = {"holds": "held"}


def stored(
    name: str,
    version: str,
    verdicts: dict[str, VerdictWord],
    *,
    seed: int = 0,
    folder: Path = Path("runs/x"),
) -> StoredRun:
    invariants = {
        id: StoredVerdict("MUST", word, "", [StoredCase(f"{id}/case", _CASE.get(word, word))])
        for id, word in verdicts.items()
    }
    return StoredRun(StoredTarget(name, version), seed, "cpu", invariants, folder=folder)
