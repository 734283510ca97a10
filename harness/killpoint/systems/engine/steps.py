"""Steps of the front end of an engine (SPEC 8)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from killpoint.systems.step import Seconds, Step

_Count = Annotated[int, msgspec.Meta(ge=0, le=10_000)]


class EngineStart(Step, tag="engine-start"):
    """The front end starts the engine; it goes on once every replica is ready."""

    timeout: Seconds | None = None


class Load(Step, tag="load"):
    """Requests begin to arrive steadily, whatever becomes of the earlier ones.

    The content of a request follows from the scenario's seed and the request's number. Its prompt
    is one of few, which share parts with each other: some the beginning, some a later part only.
    """

    rate: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 10.0
    """Requests a second."""
    together: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    """Number of requests that arrive at once, at times that are as much further apart."""
    prompts: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 8
    """Number of different prompts."""
    prompt_tokens: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 56
    """Tokens of the longest prompt."""
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 32
    """Tokens that the most demanding request asks for."""
    cancel_every: _Count = 0
    """Every so many-th request is cancelled once it has a token; 0: none."""
    large_every: _Count = 0
    """Every so many-th request asks for more than the whole KV cache can hold; 0: none."""
    within: Seconds = 30.0
    """Seconds within which a request should end."""
    look: Annotated[float, msgspec.Meta(ge=0.01, le=60)] = 0.1
    """Seconds between two looks at the engine's health and its parts."""


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One request of a client.

    Its prompt follows from the scenario's seed, ``family``, ``blocks`` and ``own`` alone. Prompts
    of one family begin with the same blocks; later blocks come in other families, too.
    """

    family: _Count = 0
    blocks: _Count = 0
    """Number of whole blocks that the prompt begins with."""
    own: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    """Number of tokens after them."""
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 8
    cancel_after: Seconds | None = None
    """Seconds after its submission at which it is cancelled; 0: at once. None: it is not."""
    cancel_at: Annotated[int, msgspec.Meta(ge=1, le=100_000)] | None = None
    """Number of tokens with which it is cancelled; None: it is not."""
    cancel_ended: bool = False
    """True if it is cancelled after it has ended, which changes nothing."""


class Client(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A client that asks one request after another, each as soon as the one before has ended."""

    asks: Annotated[list[Ask], msgspec.Meta(min_length=1)]
    at: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.0
    """Seconds after the step at which its first request comes."""
    id: str = ""
    """Id that all of its requests have, where the target lets its user choose; empty: none."""


class Burst(Step, tag="burst"):
    """Clients begin to ask, all at once or nearly so, beside those that there are."""

    clients: Annotated[list[Client], msgspec.Meta(min_length=1)]
    within: Seconds = 30.0
    """Seconds within which a request should end."""
    look: Annotated[float, msgspec.Meta(ge=0.01, le=60)] = 0.05
    """Seconds between two looks at the engine's health and its parts."""


class ContinueLoad(Step, tag="continue-load"):
    """The load goes on for some seconds."""

    seconds: Seconds
    coming: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    """Number of requests of which tokens must be arriving before the step ends, waited for three
    seconds at most after ``seconds``, so that the next step meets requests in flight."""


class WaitHealthy(Step, tag="wait-healthy"):
    """The load goes on until every process that the engine had at first is there again, and ready.

    Checkers judge whether the engine recovered within the time.
    """

    within: Seconds = 30.0
    vital: bool = False
    """True if no further step is done unless they are."""


class WaitIdle(Step, tag="wait-idle"):
    """No more requests arrive; the front end goes on once all have ended, or the time is over.

    Clients of a burst ask all that they are to ask first.
    """

    within: Seconds = 30.0
    still: Seconds | None = None
    """Seconds without news of any request after which it goes on all the same; None: no such."""


class ReferenceAnswers(Step, tag="reference-answers"):
    """The front end has the model alone answer each different request of a load, for comparison."""


class EngineStop(Step, tag="engine-stop"):
    """The engine is stopped, possibly with requests in flight."""


EngineStep = (
    EngineStart
    | Load
    | Burst
    | ContinueLoad
    | WaitHealthy
    | WaitIdle
    | ReferenceAnswers
    | EngineStop
)
