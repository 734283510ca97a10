"""Promises that vLLM's documents disclaim, by release."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from killpoint.targets.disclaimer import Disclaimer

_SECURITY = Disclaimer(
    ("S3", "S4"),
    "docs/usage/security.md (docs/deployment/security.md up to 0.8)",
    "traffic between nodes is not protected; the nodes are to be put on a network of their own",
)
_STORE = Disclaimer(
    ("G2",),
    "StatelessProcessGroup.broadcast_obj in vllm/distributed/utils.py",
    "broadcasts are not removed once all have read them; it is meant for a bounded number of uses,"
    " such as a start",
)
_INTERNAL = Disclaimer(
    ("Q17",),
    "docs/contributing/deprecation_policy.md",
    "what is kept stable are command line, environment, configuration, server and public Python"
    " interfaces; the queue is none of them, and its ranks are given by the executors",
)
_CLOSING = Disclaimer(
    ("Q16",),
    "MessageQueue._close_zmq_on_collect in vllm/distributed/device_communicators/shm_broadcast.py",
    "a queue that goes away closes its sockets first, with nothing waited for, since ending the"
    " context could block for ever",
)


def disclaimers(version: str) -> tuple[Disclaimer, ...]:
    """Return those of a release; of a tree, which has no number, those of the newest."""
    try:
        number: Version | None = Version(version)
    except InvalidVersion:
        number = None
    closing = number is None or number >= Version("0.32")
    return (_SECURITY, _STORE, _INTERNAL, *([_CLOSING] if closing else []))
