"""Any published release, or a working tree, of SGLang's message queue as a target.

It descends from vLLM's and has gone its own way since. The steps from a name to a served file are
those of :mod:`killpoint.targets.vllm`; here is what is SGLang's own.
"""

from __future__ import annotations

from killpoint.targets.protocol import Target
from killpoint.targets.sglang.adapter import SglangTarget
from killpoint.targets.sglang.sources import SGLANG
from killpoint.targets.vllm import specs


def resolve(spec: str) -> str:
    """``sglang==X.Y.Z`` fetched, or ``sglang@PATH`` found: as :func:`build` takes it.

    Raises:
        BadUsage: no such release or tree, or it has no message queue.
        CannotWork: this machine cannot get it.
    """
    return specs.resolve(spec, SGLANG)


def build(resolved: str) -> Target:
    """The target, not loaded yet. Never uses the network.

    Raises:
        BadUsage: no such tree.
        CannotWork: the release was not resolved on this machine before, or was changed since.
    """
    return SglangTarget(specs.find(resolved, SGLANG))


def switch_offs_of(resolved: str) -> list[str]:
    """The findings that can still be switched off in the code of a resolved target."""
    return specs.switch_offs_of(resolved, SGLANG)
