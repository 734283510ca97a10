"""Messages between front end, cores and their supervisor: requests, outputs, heartbeats, votes.

Between front end and core, and between cores, they are MessagePack; between supervisor and core
they go by the pipe between parent and child.
"""

from dataclasses import dataclass, field

import msgspec

from ..base.frame_decoding import decode_frame
from ..coordinator import Addresses


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A request to continue `prompt` by at most `max_tokens`.

    With `export` a replica makes the first token only, and lends the prompt's KV blocks to the
    other end of that KV link. With `imported` it receives the blocks of all tokens but the last by
    that link; if they do not come, it computes them itself.
    """

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    export: str | None = None
    """Name of the KV link by which the prompt's blocks go."""
    imported: str | None = None
    """Name of the KV link by which blocks come."""
    transfer: str = ""
    """Name of the blocks at both ends; empty: the id. Each attempt needs its own."""

    @property
    def by_link(self) -> bool:
        """True if KV blocks of it go over a link, in either direction."""
        return self.export is not None or self.imported is not None

    @property
    def transfer_id(self) -> str:
        """Name of the blocks at both ends."""
        return self.transfer or self.id


class Output(msgspec.Struct, frozen=True, array_like=True):
    """Result of one step for one request."""

    id: str
    tokens: tuple[int, ...] = ()
    """New tokens, without END."""
    finish: str | None = None
    """`stop` (the model ended it), `length`, `cancelled`, or `exported` (its blocks are ready)."""


# -- between the front end and a core; on the wire it is MessagePack --------------------------


class AddRequest(msgspec.Struct, frozen=True, array_like=True, tag="begin"):
    """To a core: a request, under an id that no other attempt has."""

    request: Request


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag="cancel"):
    """To a core: cancel this request."""

    id: str


class Outputs(msgspec.Struct, frozen=True, array_like=True, tag="made"):
    """From a core: results of one step."""

    outputs: tuple[Output, ...]


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """From a core: it does not serve this request."""

    id: str
    cause: str


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag="beat"):
    """From a core: a heartbeat, with its load and progress."""

    waiting: int
    running: int
    taken: int
    """Number of `AddRequest` messages so far, which the counts above include."""
    steps: int
    """Model steps so far, those without requests included."""
    busy: float
    """Seconds since the current step began; 0 between steps."""
    imported: int = 0
    """Number of prompts whose blocks came by a KV link."""
    waits_for: str = ""
    """Description, for people, of the thing that keeps it from stepping."""


# -- between cores ----------------------------------------------------------------------------


class Vote(msgspec.Struct, frozen=True, array_like=True, tag="vote"):
    """A replica's vote in the all-reduce of one step."""

    era: int
    wave: int
    step: int
    rank: int
    life: int
    """Number of the rank's process, counted from 1."""
    unfinished: bool
    regroup: bool = False
    """True if a replica is present that is not in the wave: end it, and begin the next one."""


ToCore = AddRequest | Cancel
FromCore = Outputs | Refused | Heartbeat


# -- between the supervisor and a core, by the pipe between parent and child -------------------


@dataclass(frozen=True)
class Ready:
    """From a core: it serves from now on."""

    front: str
    """Address at which the front end reaches it."""
    votes: str
    """Address at which other cores reach it."""
    workers: tuple[int, ...]
    """Process ids of its workers, by rank."""


@dataclass(frozen=True)
class ReplicaDown:
    """From a core: it ends, with the cause."""

    cause: str


@dataclass(frozen=True)
class Peer:
    """A core's process, and the address at which others reach it."""

    life: int
    votes: str


@dataclass(frozen=True)
class Peers:
    """To a core: the data-parallel replicas that serve, by rank."""

    by_rank: dict[int, Peer]


@dataclass(frozen=True)
class ConnectCoordinator:
    """To a core: connect to this coordinator; `era` counts coordinators."""

    era: int
    addresses: Addresses


@dataclass(frozen=True)
class LinkKv:
    """To a core: make a KV link with another core, which gets the same message."""

    link: str
    ports: tuple[int, ...]
    """Ports of the loopback address, by tensor rank."""
    keys: tuple[bytes, ...] = field(repr=False)
    end: int
    """0 for the one that sends, 1 for the one that receives."""


@dataclass(frozen=True)
class UnlinkKv:
    """To a core: close that KV link."""

    link: str


@dataclass(frozen=True)
class KvLinkResult:
    """From a core: its end of that KV link is up, or why it is not."""

    link: str
    failure: str = ""


@dataclass(frozen=True)
class Close:
    """To a core: shut down cleanly."""


ToChild = Peers | ConnectCoordinator | LinkKv | UnlinkKv | Close
FromChild = Ready | ReplicaDown | KvLinkResult


_encoder = msgspec.msgpack.Encoder()
_to_core: msgspec.msgpack.Decoder[ToCore] = msgspec.msgpack.Decoder(ToCore)
_from_core: msgspec.msgpack.Decoder[FromCore] = msgspec.msgpack.Decoder(FromCore)
_votes = msgspec.msgpack.Decoder(Vote)


def encode(message: ToCore | FromCore | Vote) -> bytes:
    """Return the message as one frame."""
    return _encoder.encode(message)


def decode_to_core(frame: bytes) -> ToCore:
    """Decode a front end's message; raises Malformed for anything else."""
    return decode_frame(_to_core.decode, frame)


def decode_from_core(frame: bytes) -> FromCore:
    """Decode a core's message; raises Malformed for anything else."""
    return decode_frame(_from_core.decode, frame)


def decode_vote(frame: bytes) -> Vote:
    """Decode another core's vote; raises Malformed for anything else."""
    return decode_frame(_votes.decode, frame)
