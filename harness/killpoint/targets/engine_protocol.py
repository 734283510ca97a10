"""The protocol between harness and whole engine: requests in, tokens out, and its health."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Protocol, runtime_checkable

import msgspec

_Few = Annotated[int, msgspec.Meta(ge=1, le=16)]


class EngineShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An engine to be started."""

    tensor_parallel: _Few = 1
    """Workers of each replica."""
    data_parallel: _Few = 1
    """Replicas that decode."""
    prefill: Annotated[int, msgspec.Meta(ge=0, le=16)] = 0
    """Replicas that only prefill; 0: each replica does both."""
    blocks: Annotated[int, msgspec.Meta(ge=4, le=1 << 20)] = 128
    """Blocks of the paged KV cache of each replica; few of them make it preempt."""
    block_size: Annotated[int, msgspec.Meta(ge=1, le=1 << 12)] = 16
    """Tokens in one block."""
    step_timeout: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 10.0
    """Seconds without a step after which a replica is given up."""
    restart: bool = True
    """True if a process that has died is started again."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Device that its workers run on."""

    def replicas(self) -> list[str]:
        """The names of its replicas: ``core-0`` and so on, then ``prefill-0`` and so on."""
        cores = [f"core-{n}" for n in range(self.data_parallel)]
        return [*cores, *(f"prefill-{n}" for n in range(self.prefill))]

    system: ClassVar[str] = "engine"

    def roles(self) -> list[str]:
        """Return the front end, which holds the engine, then the engine's own processes."""
        return ["front-end", *self.parts()]

    def collective(self) -> dict[str, list[str]]:
        """Return no name for several parts."""
        return {}

    def started_by_target(self) -> list[str]:
        """Return the engine's processes."""
        return self.parts()

    def connecting(self) -> list[str]:
        """Return no role: the engine makes its connections itself."""
        return []

    def parts(self) -> list[str]:
        """The names of its processes, as scenarios have them."""
        names = ["coordinator"] if self.data_parallel > 1 else []
        for replica in self.replicas():
            names += [replica, *(f"{replica}/worker-{n}" for n in range(self.tensor_parallel))]
        return names


class EnginePiece(msgspec.Struct, frozen=True):
    """News of a request since the last look at it."""

    tokens: Sequence[int]
    finish: str = ""
    """Empty while more is to come; ``stop``: the model ended it; ``length``: it has as many tokens
    as were asked for; ``cancelled``."""


class EngineHealth(msgspec.Struct, frozen=True):
    """Health that an engine reports of itself (E4)."""

    alive: bool
    """True if the process that answers can do something about parts that have died."""
    ready: bool
    """True if a new request would be served now."""
    progressing: bool
    """True if requests make progress, or there is none."""
    replicas: int = -1
    """Number of replicas that are ready, those that only prefill too; -1: the target does not
    say."""


@runtime_checkable
class HasEngine(Protocol):
    """Capability ``engine``: a whole engine (SPEC 8). ``end`` is what ``engine_start`` gave.

    One thread at a time calls it, not always the same one. Tokens are numbers; a prompt has some
    of 1 to 255. Decoding is greedy.
    """

    def engine_start(self, shape: EngineShape, timeout: float | None) -> Any:
        """Start it; return once every replica is ready."""
        ...

    def engine_submit(self, end: Any, prompt: Sequence[int], max_tokens: int) -> Any:
        """Ask for at most so many tokens after the prompt, and return at once with a stream.

        A request that is refused raises, here or at the first look at its stream.
        """
        ...

    def engine_poll(self, end: Any, stream: Any) -> EnginePiece | None:
        """Return the news since the last call, or None; never wait.

        The error that ended the request is raised; tokens that came before it are returned first.
        """
        ...

    def engine_cancel(self, end: Any, stream: Any) -> None:
        """Give a request up: it ends soon, with the finish ``cancelled`` or as it would have."""
        ...

    def engine_health(self, end: Any) -> EngineHealth:
        """Return its health, at once."""
        ...

    def engine_parts(self, end: Any) -> dict[str, int]:
        """Return the pids of its present processes, by name: those of :meth:`EngineShape.parts`."""
        ...

    def engine_alone(
        self, shape: EngineShape, prompt: Sequence[int], max_tokens: int
    ) -> EnginePiece:
        """Run the model by itself, in this process: no cache, no batch, no other request (E2)."""
        ...

    def engine_stop(self, end: Any) -> None:
        """Stop it cleanly, and return once it has; requests that are open end with an error."""
        ...


@runtime_checkable
class NamesRequests(Protocol):
    """What a target of capability ``engine`` may have besides: ids that its user chooses."""

    def engine_submit_as(self, end: Any, id: str, prompt: Sequence[int], max_tokens: int) -> Any:
        """Ask as ``engine_submit`` does, by this id, which no request that is open has."""
        ...
