"""Rows of a matrix as they lie on disk, made up without playing anything."""

from __future__ import annotations

from pathlib import Path

from killpoint.invariants import BY_ID
from killpoint.judgement.judge import Judgement
from killpoint.matrix.result_row import CheckOptions, ColumnFolder, Row
from killpoint.report import verdict_json
from killpoint.verdict import CaseOutcome, combine

CASE = "R7/undecodable-message"
ASKED = CheckOptions(only=(CASE,), budget=5.0)


def stored(
    out: Path,
    target: str = "vllm==0.26.0",
    replay: str | None = "found",
    shrunk: str | None = None,
    cause: str = "in /tmp/x/q.py:7, it came *twice*",
) -> tuple[ColumnFolder, Row]:
    """A finished row with one violated case; ``replay`` and ``shrunk``: texts of its files."""
    place = ColumnFolder(out, target)
    folder = place.folder / "20260102-030405-run-1"
    (folder / "replays").mkdir(parents=True, exist_ok=True)
    case = CaseOutcome(CASE, "R7", "violated", "duplicate", cause)
    case.evidence = ["0.1 ms  reader-0 at /home/me/q.py:9"]
    if replay is not None:
        case.replay = "elsewhere/replays/R7.toml"
        (folder / "replays" / "R7.toml").write_text(replay)
    if shrunk is not None:
        case.shrunk = "elsewhere/replays/R7.shrunk.toml"
        (folder / "replays" / "R7.shrunk.toml").write_text(shrunk)
    verdict = combine(BY_ID["R7"], [case], [])
    version = target.rpartition("=")[2]
    verdict_json.write(Judgement("vllm", version, [], 0, "cpu", False, [verdict]), folder)
    row = Row(target, ASKED, folder.name)
    place.keep(row)
    return place, row
