"""From ``NAME==X.Y.Z`` or ``NAME@PATH`` to the files of a project."""

from __future__ import annotations

from killpoint.errors import BadUsage, CannotWork
from killpoint.targets.vllm import releases, trees
from killpoint.targets.vllm.project import Project
from killpoint.targets.vllm.sources import Sources


def resolve(spec: str, project: Project) -> str:
    """A release fetched, or a tree found: as :func:`find` takes it.

    Raises:
        BadUsage: no such release or tree, or it has no source archive or no message queue.
        CannotWork: this machine cannot get it.
    """
    kind, rest = _split(spec, project)
    if kind == "@":
        found = trees.locate(rest, project)
    else:
        found = releases.fetch(releases.parse(rest, project), project)
    found.features()
    return found.spec


def find(resolved: str, project: Project) -> Sources:
    """The files behind a resolved spec. Never uses the network.

    Raises:
        BadUsage: no such tree.
        CannotWork: the release was not resolved on this machine before.
    """
    kind, rest = _split(resolved, project)
    if kind == "@":
        return trees.locate(rest, project)
    found = releases.stored(releases.parse(rest, project), project)
    if found is None:
        folder = releases.cache_folder(project)
        raise CannotWork(f"{resolved} is not in {folder}; it was never fetched")
    return found


def _split(spec: str, project: Project) -> tuple[str, str]:
    for kind in ("==", "@"):
        name, separator, rest = spec.partition(kind)
        if separator and name == project.name:
            return kind, rest.strip()
    raise BadUsage(f"unknown target {spec!r}; expected {project.forms()}")
