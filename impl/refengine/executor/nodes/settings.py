"""Addresses, key and ranks of the two nodes of a pool, for their processes and for each worker."""

import hmac
import socket
from dataclasses import dataclass, field

from ...base.security import Keys

SHORTEST_SECRET = 16
"""Bytes of a secret, at least: its key protects all that the nodes send to each other."""


@dataclass(frozen=True)
class NodeSettings:
    """The two nodes of a pool, as the process sees them that starts one node's workers.

    Raises ValueError for a secret that is too short, or a time that is none. Addresses are numeric.
    """

    head: str
    """Address of the head, which alone must be reachable before the start."""
    port: int
    secret: bytes = field(repr=False)
    """Secret that both nodes were given; the keys of the session between them come from it."""
    address: str = ""
    """Address of this node, where its workers listen for the other's; empty: the head's."""
    peer_timeout: float = 8.0
    """Seconds without a sign of life after which a node counts as cut off."""

    def __post_init__(self) -> None:
        if len(self.secret) < SHORTEST_SECRET:
            raise ValueError(
                f"the nodes' secret has {len(self.secret)} bytes, expected at least"
                f" {SHORTEST_SECRET}"
            )
        if not 0 < self.peer_timeout < float("inf"):
            raise ValueError("the nodes' peer timeout is longer than nothing, and ends")

    @property
    def keys(self) -> Keys:
        """Keys of the session between the nodes."""
        return Keys.from_secret(hmac.digest(self.secret, b"refengine nodes", "sha256"))

    @property
    def own_address(self) -> str:
        """Address of this node."""
        return self.address or self.head


@dataclass(frozen=True)
class SumLink:
    """One end of a link between two ranks that stand in the same place on their nodes."""

    listens: bool
    host: str
    """Address of the listening end, and its port."""
    port: int
    keys: Keys
    peer_timeout: float
    patience: float | None
    """Seconds for the other end to come; None: no limit."""


@dataclass(frozen=True)
class NodeContext:
    """One worker's place on its node."""

    ranks: range
    """Ranks of this node."""
    head: bool
    """True if the process that makes calls is on this node."""
    address: str
    """Address of this node, where the replies of a worker far from the head are fetched."""
    peer_timeout: float
    sum_link: SumLink


def ranks_of(world_size: int, *, head: bool) -> range:
    """Return the ranks of a node: the head has the first half, the follower the others."""
    half = world_size // 2
    return range(half) if head else range(half, world_size)


def own_address_towards(host: str, port: int) -> str:
    """Return the address of this machine from which the kernel would reach another one.

    Nothing is sent. Raises OSError if there is no route.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as route:
        route.connect((host, port))
        return str(route.getsockname()[0])
