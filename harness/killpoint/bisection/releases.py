"""A line of published releases."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import msgspec
from packaging.version import InvalidVersion, Version

from killpoint.errors import BadUsage
from killpoint.targets.published import PROJECTS, published


class Releases(msgspec.Struct, frozen=True):
    """Releases of one project; a release is its own name as a target."""

    names: Sequence[str]
    unit: str = "release"

    def at(self, candidate: int) -> AbstractContextManager[str]:
        """The release, which is fetched when it is played."""
        return nullcontext(self.names[candidate])


def between(one: str, other: str, project: str | None) -> tuple[Releases, bool]:
    """Return every release between two, both included, and whether the first is the older one.

    Args:
        one: ``vllm==0.26.0``, or ``0.26.0`` of ``project``; ``other`` likewise.

    Raises:
        BadUsage: they are no two releases of one project.
        CannotWork: no index here lists any.
    """
    ends = [_parse(text, project) for text in (one, other)]
    (name, first), (other_name, second) = ends
    if name != other_name:
        raise BadUsage(f"{one} and {other} are of two projects; expected two releases of one")
    listed = [Version(text) for text in published(name)]
    for version in (first, second):
        if version not in listed:
            raise BadUsage(f"{name}=={version}: {_unlisted(version, listed)}")
    if first == second:
        raise BadUsage(f"{name}=={first} stands at both ends; expected two releases")
    low, high = sorted((first, second))
    inside = [f"{name}=={version}" for version in listed if low <= version <= high]
    return Releases(inside), first == low


def _parse(text: str, project: str | None) -> tuple[str, Version]:
    name, separator, version = text.partition("==")
    if not separator:
        name, version = project or "", text
    if name not in PROJECTS:
        forms = " or ".join(f"{each}==X.Y.Z" for each in PROJECTS)
        raise BadUsage(f"{text}: expected {forms}, or X.Y.Z with --project, or --tree PATH")
    if project not in (None, name):
        raise BadUsage(f"{text} is no release of {project}, which --project names")
    try:
        return name, Version(version)
    except InvalidVersion as error:
        raise BadUsage(f"{text}: {error}; expected {name}==X.Y.Z") from error


def _unlisted(version: Version, listed: list[Version]) -> str:
    at = bisect.bisect(listed, version)
    near = " and ".join(str(each) for each in listed[max(0, at - 1) : at + 1])
    return f"no such release, or withdrawn, or not final; the nearest listed: {near}"
