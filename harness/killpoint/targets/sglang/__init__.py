"""Any published release, or a working tree, of SGLang's message queue as a target.

It descends from vLLM's and has diverged since. The steps from a name to a served file are those of
:mod:`killpoint.targets.vllm`; this package has what is SGLang's own.
"""

from __future__ import annotations

from killpoint.targets.protocol import Target
from killpoint.targets.sglang.adapter import SglangTarget
from killpoint.targets.sglang.sources import SGLANG
from killpoint.targets.vllm.fetch import specs


def resolve(spec: str) -> str:
    """Fetch ``sglang==X.Y.Z``, or find ``sglang@PATH``; return what :func:`build` takes.

    Raises:
        BadUsage: no such release or tree, or it has no message queue.
        CannotWork: this machine cannot get it.
    """
    return specs.resolve(spec, SGLANG)


def build(resolved: str) -> Target:
    """Return the target, not loaded yet. Never uses the network.

    Raises:
        BadUsage: no such tree.
        CannotWork: the release was not resolved on this machine before, or was changed since.
    """
    return SglangTarget(specs.find(resolved, SGLANG))


def switch_offs_of(resolved: str) -> list[str]:
    """Return the findings that can still be switched off in the code of a resolved target."""
    return specs.switch_offs_of(resolved, SGLANG)
