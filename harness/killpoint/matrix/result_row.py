"""One target of a matrix: the options of its check, and the folder of its finished run."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from killpoint.report.run_folder import StoredRun, read

_FILE = "row.json"


class CheckOptions(msgspec.Struct, frozen=True):
    """Options of ``check`` for every target: runs with the same ones are comparable."""

    only: tuple[str, ...] = ()
    budget: float = 0.0
    """Seconds for each target, after which no further case is begun."""
    seed: int = 0
    full: bool = False
    shrink: float = 0.0
    """Seconds for each violation, in which a smaller scenario is looked for."""
    first: bool = False
    """True if no further case is begun of an invariant that is violated."""

    def words(self) -> list[str]:
        """Return the options as arguments of ``check``."""
        only = ["--only", ",".join(self.only)] if self.only else []
        full = ["--full"] if self.full else []
        budget, shrink = f"{self.budget:g}", f"{self.shrink:g}"
        first = ["--first"] if self.first else []
        rest = ["--budget", budget, "--seed", str(self.seed), *full, "--shrink", shrink]
        return [*only, *rest, *first]


class Row(msgspec.Struct):
    """Result of one target's run."""

    target: str
    asked: CheckOptions
    run: str = ""
    """The run's folder, below the row's; empty if nothing was judged."""
    trouble: str = ""
    """Reason why nothing was judged, in a line: the machine's fault or the user's, not the
    target's."""
    seconds: float = 0.0
    replayed: dict[str, str] = {}
    """Ending of each violation's replay, by case: ``reproduced``, or else what happened."""
    renewed: dict[str, str] = {}
    """Invariants whose cases were played once more after the run, and on which day."""


class ColumnFolder:
    """The folder of one row in a matrix."""

    def __init__(self, out: Path, target: str) -> None:
        self.target = target
        self.slug = slug(target)
        self.folder = out / self.slug

    def kept(self, asked: CheckOptions) -> Row | None:
        """The row that was played before, if its run is whole and was asked the same."""
        try:
            row = msgspec.json.decode((self.folder / _FILE).read_bytes(), type=Row)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        whole = row.run and (self.folder / row.run / "verdict.json").is_file()
        return row if whole and (row.target, row.asked) == (self.target, asked) else None

    def keep(self, row: Row) -> None:
        """Write the row, at once and whole."""
        new = self.folder / f"{_FILE}.new"
        new.write_bytes(msgspec.json.format(msgspec.json.encode(row)) + b"\n")
        new.replace(self.folder / _FILE)

    def run(self, row: Row) -> StoredRun:
        """The row's run, read back."""
        return read(self.folder / row.run)


def slug(target: str) -> str:
    """A target's name in paths and links: ``vllm-0.33.0``."""
    return re.sub(r"[^\w.]+", "-", target).strip("-.")
