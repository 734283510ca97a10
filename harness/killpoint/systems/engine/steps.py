"""What the front end of an engine is told to do (SPEC 8)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from killpoint.systems.step import Seconds, Step

_Every = Annotated[int, msgspec.Meta(ge=0, le=10_000)]


class EngineStart(Step, tag="engine-start"):
    """The front end starts the engine; it goes on once every replica is ready."""

    timeout: Seconds | None = None


class Load(Step, tag="load"):
    """From now on requests come steadily, whatever becomes of the earlier ones.

    What a request asks for follows from the scenario's seed and the request's number. Its prompt is
    one of few, which share parts with each other: some the beginning, some a later part only.
    """

    rate: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 10.0
    """Requests a second."""
    together: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    """So many come at once, at times that are as much further apart."""
    prompts: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 8
    """How many different ones."""
    prompt_tokens: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 56
    """In the longest."""
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 32
    """That the most demanding asks for."""
    cancel_every: _Every = 0
    """Each so many-th is cancelled once it has a token; 0: none."""
    large_every: _Every = 0
    """Each so many-th asks for more than the whole KV cache can hold; 0: none."""
    within: Seconds = 30.0
    """When a request should have ended."""
    look: Annotated[float, msgspec.Meta(ge=0.01, le=60)] = 0.1
    """Seconds between two looks at its health and its parts."""


class Serve(Step, tag="serve"):
    """The load goes on for so long."""

    seconds: Seconds
    coming: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 0
    """And then until tokens of so many requests are coming, if that is within three seconds: what
    is done to the engine next is to meet them."""


class Recover(Step, tag="recover"):
    """The load goes on until the engine is whole: what it had at first is there again, and ready.

    Whether it came to that within the time is for the judges.
    """

    within: Seconds = 30.0


class Calm(Step, tag="calm"):
    """No more requests come; the front end goes on once all have ended, or the time is over."""

    within: Seconds = 30.0


class Alone(Step, tag="alone"):
    """The front end has the model give, by itself, what each different request of a load asks."""


class EngineStop(Step, tag="engine-stop"):
    """The engine is stopped; requests may be open."""


EngineStep = EngineStart | Load | Serve | Recover | Calm | Alone | EngineStop
