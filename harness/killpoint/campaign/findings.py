"""Findings of a campaign: a folder for each signature, kept once, and each time it was seen."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from killpoint.campaign.item import Item
from killpoint.campaign.whole_file import write_whole
from killpoint.campaign.work_order import Found, Target, WorkResult
from killpoint.findings.attribution import Attribution
from killpoint.findings.rows import unattributed
from killpoint.invariants import BY_ID
from killpoint.judgement.judge import Judgement
from killpoint.report import run_folder, verdict_json
from killpoint.signature import signature
from killpoint.verdict import CaseOutcome, combine

_SEEN, _SCENARIO, _SHRUNK = "seen.jsonl", "scenario.toml", "shrunk.toml"


class Sight(msgspec.Struct):
    """One item that showed a finding."""

    signature: str
    key: str
    seed: int
    full: bool
    depth: str
    cause: str


class Finding(msgspec.Struct):
    """A finding as it lies on disk."""

    signature: str
    folder: Path
    case: run_folder.StoredCase
    seen: list[Sight]

    @property
    def replay(self) -> Path | None:
        """The smallest scenario that shows it."""
        for name in (_SHRUNK, _SCENARIO):
            if (path := self.folder / name).exists():
                return path
        return None


class Findings:
    """The ``findings`` folder of a campaign."""

    def __init__(self, folder: Path) -> None:
        """``folder``: made when something is found."""
        self._folder = folder

    def place(self, name: str) -> Path:
        """The folder of a signature."""
        return self._folder / re.sub(r"[^\w.-]+", "-", name)

    def keep(self, found: Found, item: Item, target: Target, device: str) -> tuple[str, bool]:
        """Keep a violation; its signature, and whether it is the first of it.

        Kept twice of the same item, which a campaign's sudden end may have it be, it counts once.
        """
        outcome = found.outcome
        name = signature(outcome.id, outcome.kind or "", outcome.cause)
        place = self.place(name)
        seen = _sights(place)
        if not seen:
            place.mkdir(parents=True, exist_ok=True)
            self._write(place, found, item, target, device)
        if all(sight.key != item.key for sight in seen):
            sight = Sight(name, item.key, item.seed, item.full, item.depth, outcome.cause)
            _append(place / _SEEN, msgspec.json.encode(sight) + b"\n")
        return name, not seen

    def _write(self, place: Path, found: Found, item: Item, target: Target, device: str) -> None:
        outcome = msgspec.structs.replace(found.outcome, replay=None)
        if found.scenario:
            write_whole(place / _SCENARIO, found.scenario.encode())
            outcome.replay = str(place / _SCENARIO)
            worst = [msgspec.structs.replace(v, replay=outcome.replay) for v in outcome.violations]
            outcome.violations = worst[:1]
        record = place / "plays" / re.sub(r"[^\w.-]+", "-", outcome.id)
        for name, content in found.record.items():
            record.mkdir(parents=True, exist_ok=True)
            write_whole(record / Path(name).name, content)
        verdict = combine(BY_ID[outcome.invariant], [outcome], [], whole=False)
        judged = Judgement(
            target.name, target.version, target.notes, item.seed, device, item.full, [verdict]
        )
        judged.seconds = outcome.seconds
        write_whole(place / "verdict.json", verdict_json.text(judged).encode())

    def shrunk(self, name: str, played: WorkResult) -> None:
        """Keep what the shrinking of a finding came to."""
        place = self.place(name)
        run = run_folder.read(place)
        case = run.cases()[0]
        case.shrinkage = played.shrinkage
        if played.word != "reproduced":
            case.shrinkage = f"played again: {played.word}" + (
                f" ({played.cause})" if played.cause else ""
            )
        if played.shrunk:
            write_whole(place / _SHRUNK, played.shrunk.encode())
            case.shrunk = str(place / _SHRUNK)
        self._rewrite(place, run)

    @staticmethod
    def _rewrite(place: Path, run: run_folder.StoredRun) -> None:
        text = msgspec.json.format(msgspec.json.encode(_as_stored(run)), indent=2)
        write_whole(place / "verdict.json", text + b"\n")

    def attribute(self, spec: str, end: float, tell: Callable[[str], None]) -> None:
        """Say of each that has none yet which entry of the registry it belongs to.

        Args:
            end: of the monotonic clock; what has not been begun by then is left for the next time.
        """
        nobodys = [each for each in self.all() if unattributed([each.case])]
        if not nobodys:
            return
        runs = [run_folder.read(each.folder) for each in nobodys]
        with Attribution(spec, tell) as attribution:
            attribution.of_cases([run.cases()[0] for run in runs], end=end)
        for each, run in zip(nobodys, runs, strict=True):
            self._rewrite(each.folder, run)

    def scenario(self, name: str) -> str:
        """The scenario that showed it first, as TOML; empty if it has none."""
        path = self.place(name) / _SCENARIO
        return path.read_text("utf-8") if path.exists() else ""

    def convicted(self, name: str) -> CaseOutcome:
        """Return the outcome of the case that the finding violated."""
        case = run_folder.read(self.place(name)).cases()[0]
        return CaseOutcome(case.id, case.invariant, "violated", case.kind, case.cause)

    def all(self) -> list[Finding]:
        """Return every finding, in the order of their signatures."""
        found: list[Finding] = []
        for place in sorted(self._folder.glob("*")):
            if seen := _sights(place):
                found.append(self.one(seen[0].signature))
        return found

    def one(self, name: str) -> Finding:
        """The finding with that signature, which has been kept."""
        place = self.place(name)
        return Finding(name, place, run_folder.read(place).cases()[0], _sights(place))


def _as_stored(run: run_folder.StoredRun) -> dict[str, object]:
    """Return the run as it is stored: without its folder."""
    plain: dict[str, object] = msgspec.to_builtins(run, enc_hook=str)
    plain.pop("folder")
    return plain


def _sights(place: Path) -> list[Sight]:
    """Read the sights; a torn last line is left out."""
    path = place / _SEEN
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [msgspec.json.decode(line, type=Sight) for line in lines]


def _append(path: Path, line: bytes) -> None:
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
