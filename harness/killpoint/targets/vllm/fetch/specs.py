"""From ``NAME==X.Y.Z`` or ``NAME@PATH`` to the files of a project."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from killpoint.errors import BadUsage, CannotWork
from killpoint.targets.vllm import switch_offs
from killpoint.targets.vllm.fetch import releases, trees
from killpoint.targets.vllm.project import Project
from killpoint.targets.vllm.sources import Sources

_OFF = re.compile(r"~[a-z][a-z0-9-]*(,[a-z][a-z0-9-]*)*$")


def resolve(spec: str, project: Project) -> str:
    """Fetch a release, or find a tree; return the spec that :func:`find` takes.

    Raises:
        BadUsage: no such release or tree, or it has no source archive or no message queue.
        CannotWork: this machine cannot get it.
    """
    plain, off = parted(spec, spec.partition("@")[2])
    kind, rest = _split(plain, project)
    if kind == "@":
        found = trees.locate(rest, project)
    else:
        found = releases.fetch(releases.parse(rest, project), project)
    found.features()
    return _without(found, off).spec


def find(resolved: str, project: Project) -> Sources:
    """Return the files behind a resolved spec. Never uses the network.

    Raises:
        BadUsage: no such tree.
        CannotWork: the release was not resolved on this machine before.
    """
    plain, off = parted(resolved, resolved.partition("@")[2])
    kind, rest = _split(plain, project)
    if kind == "@":
        return _without(trees.locate(rest, project), off)
    found = releases.stored(releases.parse(rest, project), project)
    if found is None:
        folder = releases.cache_folder(project)
        raise CannotWork(f"{plain} is not in {folder}; it was never fetched")
    return _without(found, off)


def without(spec: str, off: Sequence[str]) -> str:
    """Return the spec of the same target with further findings switched off."""
    plain, before = parted(spec, spec.partition("@")[2])
    every = sorted({*before, *off})
    return f"{plain}~{','.join(every)}" if every else plain


def switch_offs_of(resolved: str, project: Project) -> list[str]:
    """Return the findings whose switch-off changes the target and is not made already."""
    sources = find(resolved, project)
    texts = [(path, sources.read(path)) for path in sources.files()]
    return [
        id
        for id in switch_offs.SWITCH_OFFS
        if id not in sources.off and any(switch_offs.fits(id, *each) for each in texts)
    ]


def parted(spec: str, path: str) -> tuple[str, tuple[str, ...]]:
    """Split ``vllm==0.33.0~late-replies,deaf-reader`` into the target and its switch-offs.

    Args:
        path: part of the spec that may name a folder, whose name may have a tilde, too.
    """
    if not _OFF.search(spec) or _is_folder(path):
        return spec, ()
    plain, _, off = spec.rpartition("~")
    return plain, tuple(off.split(","))


def _is_folder(path: str) -> bool:
    """Return whether there is such a folder; a path with every finding behind it is too long."""
    try:
        return bool(path) and Path(path).is_dir()
    except OSError:
        return False


def _without(sources: Sources, off: tuple[str, ...]) -> Sources:
    if not off:
        return sources
    switch_offs.known(off)
    return msgspec.structs.replace(sources, spec=without(sources.spec, off), off=off)


def _split(spec: str, project: Project) -> tuple[str, str]:
    for kind in ("==", "@"):
        name, separator, rest = spec.partition(kind)
        if separator and name == project.name:
            return kind, rest.strip()
    raise BadUsage(f"unknown target {spec!r}; expected {project.forms()}")
