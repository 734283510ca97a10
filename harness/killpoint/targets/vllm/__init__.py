"""Any published release, or a working tree, of vLLM's message queue as a target.

The modules that fetch and load a release are imported on demand: decoding a ring's bytes needs none
of them.
"""

from __future__ import annotations

from killpoint.targets.protocol import Target


def resolve(spec: str) -> str:
    """Fetch ``vllm==X.Y.Z``, or find ``vllm@PATH``; return what :func:`build` takes.

    Raises:
        BadUsage: no such release or tree, or it has no source archive or no message queue.
        CannotWork: this machine cannot get it.
    """
    from killpoint.targets.vllm.fetch import specs
    from killpoint.targets.vllm.project import VLLM

    return specs.resolve(spec, VLLM)


def build(resolved: str) -> Target:
    """Return the target, not loaded yet. Never uses the network.

    Raises:
        BadUsage: no such tree.
        CannotWork: the release was not resolved on this machine before, or was changed since.
    """
    from killpoint.targets.vllm.adapter import VllmTarget
    from killpoint.targets.vllm.fetch import specs
    from killpoint.targets.vllm.project import VLLM

    return VllmTarget(specs.find(resolved, VLLM))


def switch_offs_of(resolved: str) -> list[str]:
    """Return the findings that can still be switched off in the code of a resolved target."""
    from killpoint.targets.vllm.fetch import specs
    from killpoint.targets.vllm.project import VLLM

    return specs.switch_offs_of(resolved, VLLM)
