"""What is asked of a replica, and what it gives."""

from dataclasses import dataclass, field

import msgspec

from ..coordinator import Addresses
from ..malformed import decoded


class Request(msgspec.Struct, frozen=True, array_like=True):
    """Continue `prompt` by at most `max_tokens`.

    With `export` a replica makes the first token only, and lends the prompt's KV blocks to the
    other end of that KV link. With `imported` it gets those of all tokens but the last by that
    link; should they not come, it computes them itself.
    """

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    export: str | None = None
    """Name of a KV link."""
    imported: str | None = None
    """Name of a KV link."""
    transfer: str = ""
    """What both ends call the blocks; empty: the id. Each attempt needs its own."""

    @property
    def by_link(self) -> bool:
        """Whether KV blocks of it come or go."""
        return self.export is not None or self.imported is not None

    @property
    def transfer_id(self) -> str:
        """What both ends call the blocks."""
        return self.transfer or self.id


class Output(msgspec.Struct, frozen=True, array_like=True):
    """What one step gave one request."""

    id: str
    tokens: tuple[int, ...] = ()
    """New ones. END is not among them."""
    finish: str | None = None
    """`stop` (the model ended it), `length`, `cancelled`, or `exported`: its blocks are ready."""


# -- between the front end and a core; on the wire it is MessagePack --------------------------


class AddRequest(msgspec.Struct, frozen=True, array_like=True, tag="begin"):
    """To a core: a request, under an id that no other attempt has."""

    request: Request


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag="cancel"):
    """To a core: nobody wants this any more."""

    id: str


class Outputs(msgspec.Struct, frozen=True, array_like=True, tag="made"):
    """From a core: what one step gave these requests."""

    outputs: tuple[Output, ...]


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """From a core: this request it does not serve."""

    id: str
    cause: str


class Heartbeat(msgspec.Struct, frozen=True, array_like=True, tag="beat"):
    """From a core: a sign of life, and what it is at."""

    waiting: int
    running: int
    taken: int
    """How many `Begin` it has had so far: those counts have seen so many."""
    steps: int
    """Of the model, those without requests included."""
    busy: float
    """Seconds that the step has taken so far that it is in; 0 between steps."""
    imported: int = 0
    """Prompts whose blocks came by a KV link."""
    waits_for: str = ""
    """What keeps it from stepping, for people."""


# -- between cores ----------------------------------------------------------------------------


class Vote(msgspec.Struct, frozen=True, array_like=True, tag="vote"):
    """A replica's part in the all-reduce of one step."""

    era: int
    wave: int
    step: int
    rank: int
    life: int
    """Which process of that rank."""
    unfinished: bool
    regroup: bool = False
    """Somebody is there who is not in the wave: it is to end, and the next one to begin."""


ToCore = AddRequest | Cancel
FromCore = Outputs | Refused | Heartbeat


# -- between the supervisor and a core, by the pipe between parent and child -------------------


@dataclass(frozen=True)
class Ready:
    """From a core: it serves."""

    front: str
    """Address where the front end finds it."""
    votes: str
    """Address where other cores find it; empty without a coordinator."""
    workers: tuple[int, ...]
    """Processes, by rank."""


@dataclass(frozen=True)
class ReplicaDown:
    """From a core: it ends, for this cause."""

    cause: str


@dataclass(frozen=True)
class Peer:
    """A core as others reach it."""

    life: int
    votes: str


@dataclass(frozen=True)
class Peers:
    """To a core: the data-parallel replicas that are there, by rank."""

    by_rank: dict[int, Peer]


@dataclass(frozen=True)
class ConnectCoordinator:
    """To a core: the coordinator; the era counts them."""

    era: int
    addresses: Addresses


@dataclass(frozen=True)
class LinkKv:
    """To a core: make a KV link with another, which is told the same."""

    link: str
    ports: tuple[int, ...]
    """On this machine alone, by tensor rank."""
    keys: tuple[bytes, ...] = field(repr=False)
    end: int
    """0 for the one that sends, 1 for the one that receives."""


@dataclass(frozen=True)
class UnlinkKv:
    """To a core: that KV link is at its end."""

    link: str


@dataclass(frozen=True)
class KvLinkResult:
    """From a core: its end of that KV link stands, or does not."""

    link: str
    failure: str = ""


@dataclass(frozen=True)
class Close:
    """To a core: leave, in good order."""


ToChild = Peers | ConnectCoordinator | LinkKv | UnlinkKv | Close
FromChild = Ready | ReplicaDown | KvLinkResult


_encoder = msgspec.msgpack.Encoder()
_to_core: msgspec.msgpack.Decoder[ToCore] = msgspec.msgpack.Decoder(ToCore)
_from_core: msgspec.msgpack.Decoder[FromCore] = msgspec.msgpack.Decoder(FromCore)
_votes = msgspec.msgpack.Decoder(Vote)


def encode(message: ToCore | FromCore | Vote) -> bytes:
    """One frame."""
    return _encoder.encode(message)


def decode_to_core(frame: bytes) -> ToCore:
    """What a front end sends; Malformed if it is something else."""
    return decoded(_to_core.decode, frame)


def decode_from_core(frame: bytes) -> FromCore:
    """What a core sends; Malformed if it is something else."""
    return decoded(_from_core.decode, frame)


def decode_vote(frame: bytes) -> Vote:
    """What another core sends; Malformed if it is something else."""
    return decoded(_votes.decode, frame)
