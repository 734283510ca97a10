"""The table of switch-offs: a finding's edits, and their application to a file."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from killpoint.errors import BadUsage
from killpoint.targets.edits import DoesNotFit, Edits

Edit = Callable[[Edits], None]
QUEUE = "shm_broadcast.py"
POOL = "multiproc_executor.py"
COORDINATOR = "coordinator.py"
GROUP = "utils.py"

SWITCH_OFFS: dict[str, dict[str, Edit]] = {}
"""Edit of each file, by the finding's id."""


def edits_of(id: str, file: str) -> Callable[[Edit], Edit]:
    """Keep the decorated function as a finding's edit of the files of that name."""

    def keep(edit: Edit) -> Edit:
        SWITCH_OFFS.setdefault(id, {})[file] = edit
        return edit

    return keep


def known(ids: Sequence[str], able: Collection[str] = SWITCH_OFFS) -> None:
    """Check that each of these findings is among those that can be switched off.

    Raises:
        BadUsage: one is not.
    """
    for id in ids:
        if id not in able:
            expected = ", ".join(sorted(able))
            raise BadUsage(f"no switch-off {id!r}; expected one of: {expected}")


def applied(off: Sequence[str], path: Path, content: bytes) -> bytes:
    """Return a file with these findings switched off; unchanged where no edit is for it or fits."""
    for id in off:
        content = _edited(id, path, content)
    return content


def fits(id: str, path: Path, content: bytes) -> bool:
    """Return whether a file has the place that a switch-off edits."""
    return _edited(id, path, content) != content


def diff(id: str, path: Path, content: bytes, name: str) -> str:
    """Return the switch-off as a unified diff of one file; empty if it does not touch it."""
    before, after = content.decode(), _edited(id, path, content).decode()
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"a/{name}",
        f"b/{name}",
    )
    return "".join(lines)


def _edited(id: str, path: Path, content: bytes) -> bytes:
    edit = SWITCH_OFFS[id].get(path.name)
    return content if edit is None else made(edit, content)


def made(edit: Edit, content: bytes) -> bytes:
    """Return a file with an edit made; unchanged where the edit does not fit."""
    edits = Edits(content.decode())
    try:
        edit(edits)
        return edits.text().encode()
    except DoesNotFit:
        return content
