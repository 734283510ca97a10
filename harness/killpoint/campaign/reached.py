"""Lines of the target that a campaign has reached: ``reached.json`` in its folder.

An item's part is stored before its end counts. Stored twice, which a campaign's sudden end may have
it be, it counts once.
"""

from __future__ import annotations

import copy
from pathlib import Path

import msgspec

from killpoint.campaign.whole_file import write_whole
from killpoint.campaign.work_order import ItemReach
from killpoint.errors import BadUsage
from killpoint.points.target_lines import Function, Outline
from killpoint.search.reach import CaseReach

_FILE = "reached.json"


class FileReach(msgspec.Struct):
    """One file of the target, and the lines of it that were reached."""

    outline: Outline
    first: dict[int, str] = {}
    """Case that reached a line first, by line."""

    def reached(self, function: Function) -> int:
        """Return the number of its lines that were reached; 0: it was never entered."""
        return sum(line in self.first for line in function.lines)


class Reached(msgspec.Struct):
    """What all sessions of a campaign have reached so far."""

    files: dict[str, FileReach] = {}
    others: list[str] = []
    cases: dict[str, CaseReach] = {}
    items: list[str] = []
    """Items that have been added."""

    def add(self, key: str, case: str, item: ItemReach) -> bool:
        """Add what an item has reached; return False if it was added before."""
        if key in self.items:
            return False
        self.items.append(key)
        self.others = sorted({*self.others, *item.others})
        for name, outline in item.outlines.items():
            known = self.files.get(name)
            if known is None or known.outline.digest != outline.digest:
                self._forget(name)
                self.files[name] = FileReach(outline)
        self.cases.setdefault(case, CaseReach()).add(item.case)
        for name, lines in item.case.lines.items():
            for line in lines:
                self.files[name].first.setdefault(line, case)
        return True

    def of(self, case: str) -> CaseReach:
        """Return what a case has reached by now; what is added later does not change it."""
        return copy.deepcopy(self.cases.get(case, CaseReach()))

    def _forget(self, name: str) -> None:
        """Forget the lines of a file that has another text now."""
        for case in self.cases.values():
            case.lines.pop(name, None)


def load(folder: Path) -> Reached:
    """Return what the campaign in a folder has reached; nothing if it recorded no play yet.

    Raises:
        BadUsage: the file is damaged.
    """
    path = folder / _FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Reached)
    except FileNotFoundError:
        return Reached()
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadUsage(f"{path}: {error}; expected the lines that a campaign reached") from error


def save(folder: Path, reached: Reached) -> None:
    """Store it, whole or not at all."""
    write_whole(folder / _FILE, msgspec.json.encode(reached) + b"\n")
