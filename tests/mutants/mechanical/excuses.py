"""Changes that change nothing anybody could see, each with its reason; the file must match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from killpoint.errors import BadUsage
from mechanical.changes import Change


class Excuse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a change of this statement is none."""

    file: str
    scope: str
    old: str
    why: str
    new: str = ""
    """The one change that is meant; empty: every change of this statement."""

    def covers(self, change: Change) -> bool:
        """Whether this change is the one excused."""
        mine = (change.file, change.scope, change.old) == (self.file, self.scope, self.old)
        return mine and self.new in ("", change.new)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    equivalent: list[Excuse]


def load(path: Path) -> list[Excuse]:
    """The excuses of a file.

    Raises:
        BadUsage: it is not such a file, or one of them gives no reason.
    """
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=_File).equivalent
    except (OSError, msgspec.DecodeError) as error:
        raise BadUsage(f"{path}: {error}; expected [[equivalent]] tables") from error
    for excuse in found:
        if not excuse.why.strip():
            raise BadUsage(f"{path}: {excuse.file} {excuse.scope}: no reason given; expected `why`")
    return found


def stale(excuses: Iterable[Excuse], changes: Sequence[Change]) -> list[Excuse]:
    """Those that excuse no change any more: the code has moved on, and so must they."""
    return [excuse for excuse in excuses if not any(excuse.covers(change) for change in changes)]
