"""Any published release, or a working tree, of vLLM's message queue as a target."""

from __future__ import annotations

from killpoint.errors import BadUsage, CannotWork
from killpoint.targets.protocol import Target
from killpoint.targets.vllm import releases, trees
from killpoint.targets.vllm.adapter import VllmTarget


def resolve(spec: str) -> str:
    """``vllm==X.Y.Z`` fetched, or ``vllm@PATH`` found: as :func:`build` takes it.

    Raises:
        BadUsage: no such release or tree, or it has no source archive or no message queue.
        CannotWork: this machine cannot get it.
    """
    kind, rest = _split(spec)
    found = releases.fetch(releases.parse(rest)) if kind == "==" else trees.locate(rest)
    found.features()
    return found.spec


def build(resolved: str) -> Target:
    """The target, not loaded yet. Never uses the network.

    Raises:
        BadUsage: no such tree.
        CannotWork: the release was not resolved on this machine before, or was changed since.
    """
    kind, rest = _split(resolved)
    if kind == "@":
        return VllmTarget(trees.locate(rest))
    found = releases.stored(releases.parse(rest))
    if found is None:
        raise CannotWork(f"{resolved} is not in {releases.cache_folder()}; it was never fetched")
    return VllmTarget(found)


def _split(spec: str) -> tuple[str, str]:
    for kind in ("==", "@"):
        name, separator, rest = spec.partition(kind)
        if separator and name == "vllm":
            return kind, rest.strip()
    raise BadUsage(f"unknown target {spec!r}; expected vllm==X.Y.Z or vllm@PATH")
