"""Targets of a matrix: the reference, releases of vLLM where its code changed, SGLang."""

from __future__ import annotations

import re

from packaging.version import InvalidVersion, Version

from killpoint.errors import BadUsage, CannotWork
from killpoint.targets.published import PROJECTS, published

LANDMARKS = {
    "0.8.0": "a queue's handle carries addresses",
    "0.8.5": "workers of a pool answer through pipes; a group's store listens where it is told",
    "0.9.1": "replicas have a coordinator; idle readers sleep",
    "0.10.1": "workers watch a pipe for their parent's death",
    "0.10.2": "a pool that lost a worker ends its pending calls",
    "0.11.0": "a receive may wait without end",
    "0.12.0": "a message goes in parts; the last release with a pipe for KV caches",
    "0.14.0": "coordination of waves can be switched off",
    "0.17.1": "flags are read and written with memory fences",
    "0.18.0": "sleeping readers are notified; queues can be shut down",
    "0.22.0": "readers spin in native code",
    "0.26.0": "the last release that sends whole tensors in band",
    "0.27.0": "tensors travel out of band",
    "0.29.0": "the coordinator wakes its engines again if none obeyed",
    "0.32.0": "tensors may lie in an arena of their own",
    "0.33.0": "front ends report scaling alone to the coordinator",
}
"""Releases of vLLM at which the shape of the judged code changed, and how."""

COLUMNS = ("0.26.0", "0.32.0", "0.33.0")
"""Releases that a matrix has by default: a column takes an hour on two cores. Between the first
two lie the fixes of 0.27.0 and 0.29.0; since when an older finding is, its entry in the registry
says."""

_NEWEST_SGLANG = "0.5.23"
_RANGE = re.compile(r"(?P<project>\w+):(?P<first>[^.:][^:]*?)\.\.(?P<last>[^:]*)")


def targets(named: list[str] | None, releases: str | None) -> list[str]:
    """The targets of a matrix, in the order of its columns, each once.

    Args:
        named: as after ``--targets``; by default the reference and SGLang's newest, with
            releases of vLLM between them.
        releases: as after ``--releases``: how many of the landmarks, or a range of releases; by
            default a few recent ones and the newest, unless targets are named.

    Raises:
        BadUsage: a range that is none, or has no release in it.
        CannotWork: a range of releases, and no index lists them.
    """
    if named is None:
        chosen = ["refengine", *_releases(releases), f"sglang=={newest('sglang', _NEWEST_SGLANG)}"]
    else:
        chosen = [*named, *(_releases(releases) if releases else [])]
    return list(dict.fromkeys(chosen))


def newest(project: str, known: str) -> str:
    """The newest release that the index lists; the newest known where no index can be asked."""
    try:
        listed = published(project)[-1]
    except CannotWork:
        return known
    return max(listed, known, key=Version)


def thinned(all: list[str], count: int) -> list[str]:
    """Return so many of them, spread evenly, the first and the last among them."""
    if count >= len(all):
        return all
    if count == 1:
        return all[-1:]
    return [all[round(n * (len(all) - 1) / (count - 1))] for n in range(count)]


def _releases(text: str | None) -> list[str]:
    if text is None or (text.isdecimal() and int(text) > 0):
        known = [*COLUMNS] if text is None else [*LANDMARKS]
        last = newest("vllm", known[-1])
        all = known if last in known else [*known, last]
        return [f"vllm=={version}" for version in thinned(all, int(text or len(all)))]
    found = _RANGE.fullmatch(text)
    if found is None:
        raise BadUsage(f"--releases {text}: expected a number, or PROJECT:FIRST..[LAST]")
    return _between(found["project"], found["first"], found["last"])


def _between(project: str, first: str, last: str) -> list[str]:
    what = f"--releases {project}:{first}..{last}"
    if project not in PROJECTS:
        raise BadUsage(f"{what}: no such project; expected: {', '.join(PROJECTS)}")
    try:
        low, high = Version(first), Version(last) if last else None
    except InvalidVersion as error:
        raise BadUsage(f"{what}: {error}; expected X.Y.Z..X.Y.Z") from error
    inside = [
        version
        for version in published(project)
        if low <= Version(version) and (high is None or Version(version) <= high)
    ]
    if not inside:
        raise BadUsage(f"{what}: no release lies there")
    return [f"{project}=={version}" for version in inside]
