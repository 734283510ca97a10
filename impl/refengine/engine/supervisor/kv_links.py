"""KV links between prefill and decode replicas: which are up, and which to make."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..protocol import KvLinkResult, LinkKv, UnlinkKv

_TRIES = 3  # attempts for one pair, while both live


@dataclass
class _Pair:
    prefill: str
    decode: str
    link: str = ""
    """Name of the link that is being made, or is up; empty: none."""
    joined: int = 0
    """Number of its ends that are up."""
    tries: int = 0


@dataclass(frozen=True)
class Notify:
    """Send a message to a replica."""

    name: str
    message: LinkKv | UnlinkKv


@dataclass(frozen=True)
class LinkUp:
    """A link is up: KV blocks can be sent over it."""

    link: str
    prefill: str
    decode: str


@dataclass(frozen=True)
class LinkDown:
    """A link is down."""

    link: str


Action = Notify | LinkUp | LinkDown


class KvLinkTable:
    """State of the link of each pair of replicas, sans I/O.

    `new_endpoint` returns the ports and keys of a new link, one of each per tensor rank.
    """

    def __init__(
        self,
        prefills: Sequence[str],
        decodes: Sequence[str],
        new_endpoint: Callable[[], tuple[tuple[int, ...], tuple[bytes, ...]]],
    ) -> None:
        self._pairs = [_Pair(p, d) for p in prefills for d in decodes]
        self._new_endpoint = new_endpoint
        self._serving: set[str] = set()
        self._made = 0

    def serves(self, name: str) -> list[Action]:
        """Note that a replica serves, and set up its links."""
        self._serving.add(name)
        out: list[Action] = []
        for pair in self._pairs:
            if name in (pair.prefill, pair.decode) and {pair.prefill, pair.decode} <= self._serving:
                pair.tries = 0
                out += self._set_up(pair)
        return out

    @property
    def settled(self) -> bool:
        """True if every link is up, or given up for now."""
        return all(not pair.link or pair.joined == 2 for pair in self._pairs)

    def left(self, name: str) -> list[Action]:
        """Note a replica's loss, and take its links down."""
        self._serving.discard(name)
        out: list[Action] = []
        for pair in self._pairs:
            if pair.link and name in (pair.prefill, pair.decode):
                out += self._take_down(pair)
        return out

    def joined(self, report: KvLinkResult) -> list[Action]:
        """Take the report of one end of a link."""
        for pair in self._pairs:
            if pair.link == report.link:
                if report.failure:
                    out = self._take_down(pair)
                    return out + (self._set_up(pair) if pair.tries < _TRIES else [])
                pair.joined += 1
                if pair.joined == 2:
                    return [LinkUp(pair.link, pair.prefill, pair.decode)]
        return []

    def _set_up(self, pair: _Pair) -> list[Action]:
        self._made += 1
        pair.link, pair.joined = f"{pair.prefill}>{pair.decode}/{self._made}", 0
        pair.tries += 1
        ports, keys = self._new_endpoint()
        return [
            Notify(name, LinkKv(pair.link, ports, keys, end))
            for end, name in enumerate((pair.prefill, pair.decode))
        ]

    def _take_down(self, pair: _Pair) -> list[Action]:
        link, was_up = pair.link, pair.joined == 2
        pair.link, pair.joined = "", 0
        out: list[Action] = [LinkDown(link)] if was_up else []
        there = [name for name in (pair.prefill, pair.decode) if name in self._serving]
        return out + [Notify(name, UnlinkKv(link)) for name in there]
