"""What the front end, the cores and their supervisor say to each other."""

from dataclasses import dataclass, field

import msgspec

from ..coordinator import Addresses
from .request import Output, Request

# -- between the front end and a core; on the wire it is MessagePack --------------------------


class Begin(msgspec.Struct, frozen=True, array_like=True, tag="begin"):
    """To a core: a request, under an id that no other attempt has."""

    request: Request


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag="cancel"):
    """To a core: nobody wants this any more."""

    id: str


class Made(msgspec.Struct, frozen=True, array_like=True, tag="made"):
    """From a core: what one step gave these requests."""

    outputs: tuple[Output, ...]


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """From a core: this request it does not serve."""

    id: str
    cause: str


class Beat(msgspec.Struct, frozen=True, array_like=True, tag="beat"):
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


ToCore = Begin | Cancel
FromCore = Made | Refused | Beat


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
class Down:
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
class Meet:
    """To a core: the coordinator; the era counts them."""

    era: int
    addresses: Addresses


@dataclass(frozen=True)
class Join:
    """To a core: make a KV link with another, which is told the same."""

    link: str
    ports: tuple[int, ...]
    """On this machine alone, by tensor rank."""
    keys: tuple[bytes, ...] = field(repr=False)
    end: int
    """0 for the one that sends, 1 for the one that receives."""


@dataclass(frozen=True)
class Part:
    """To a core: that KV link is at its end."""

    link: str


@dataclass(frozen=True)
class Joined:
    """From a core: its end of that KV link stands, or does not."""

    link: str
    failure: str = ""


@dataclass(frozen=True)
class Close:
    """To a core: leave, in good order."""


ToChild = Peers | Meet | Join | Part | Close
FromChild = Ready | Down | Joined
