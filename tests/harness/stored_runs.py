"""Runs as they are stored, made up for the tests of reports."""

from pathlib import Path

import msgspec
from synthetic import Tape, scene

from killpoint.checkers.finding import hangs
from killpoint.ledger import Ledger
from killpoint.report.run_folder import StoredCase, StoredRun, StoredTarget, StoredVerdict, read
from killpoint.scenario import Scenario, dump
from killpoint.verdict import CaseWord, VerdictWord

_CASE: dict[str, CaseWord] = {"holds": "held"}
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
"""What a target may say."""


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


def keep_play(run: Path, stem: str, tape: Tape, scenario: Scenario, err: str = "") -> Path:
    """The record of a play, as a trial keeps it."""
    folder = run / "plays" / stem
    folder.mkdir(parents=True)
    for role in {event.role for event in tape.events}:
        lines = [msgspec.json.encode(event) for event in tape.events if event.role == role]
        (folder / f"{role}.jsonl").write_bytes(b"\n".join([*lines, b""]))
    (folder / "writer.err").write_text(err, "utf-8")
    (folder / "scenario.toml").write_text(dump(scenario), "utf-8")
    (folder / "ledger.json").write_bytes(msgspec.json.encode(Ledger()))
    return folder


def keep_run(run: StoredRun, folder: Path) -> StoredRun:
    """A run's folder with its verdict, and the run as it is read from there."""
    folder.mkdir(parents=True, exist_ok=True)
    data = msgspec.to_builtins(run, enc_hook=str)
    del data["folder"]
    (folder / "verdict.json").write_bytes(msgspec.json.encode(data))
    return read(folder)


def dead_writer(messages: int = 3) -> Tape:
    """A writer dies in a send, and its two readers wait for ever."""
    tape = Tape()
    for seq in range(messages):
        tape.sent(seq).gets(seq).gets(seq, "reader-1")
    tape.sends(messages).tell("director", "reached", target="writer", where="queue.py:7")
    tape.kills("writer").waits().waits("reader-1").later(4000)
    return tape.hangs("reader-0", "receive").hangs("reader-1", "receive")


def violating_run(folder: Path) -> StoredRun:
    """A run in which Q6 is violated, R6 held, and S3 unsupported; with plays, and hostile text."""
    tape = dead_writer()
    held = Tape()
    for seq in range(5):
        held.sent(seq).gets(seq)
    scenario = scene(judges="Q6", readers=2, title=HOSTILE, target="vllm==9.9")
    keep_play(folder, "Q6-synthetic", tape, scenario, HOSTILE)
    keep_play(folder, "R6-synthetic", held, scene(judges="R6"), "a log\n")
    run = stored("vllm", "9.9", {"R6": "holds", "Q6": "violated", "S3": "unsupported"})
    found = hangs(tape.history())[0]
    for id in ("R6", "Q6"):
        case = run.invariants[id].cases[0]
        case.id, case.runs = f"{id}/synthetic", 2
    case = run.invariants["Q6"].cases[0]
    case.kind, case.cause, case.evidence = found.kind, found.cause + HOSTILE, found.evidence
    case.replay = "runs/x/replays/Q6-synthetic.toml"
    run.notes = [HOSTILE]
    return keep_run(run, folder)
