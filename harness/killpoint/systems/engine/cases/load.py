"""Cases of an engine: every request ends, and with the model's own tokens (E1, E2)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import Fault, Wait, WaitIdle
from killpoint.systems.engine.cases.builders import COMPARED, STOP, killed, of_engine, serve, up

_ENDS = (
    of_engine(
        "E1/stopped-under-load",
        "some requests are cancelled, some ask for more than fits; the engine is stopped while"
        " others are open",
        *[*up(rate=30.0, max_tokens=150, cancel_every=7, large_every=11), *serve(2.5), *STOP],
    ),
    of_engine(
        "E1/last-replica-dies",
        "the only replica is stopped, killed once requests wait for it, and nobody starts another"
        " one",
        *[
            *up(rate=8.0, together=2, max_tokens=200, within=8.0),
            *serve(1.5, 1),
            Fault("stop", "core-0"),
            *serve(0.6),
            Fault("kill", "core-0"),
        ],
        *[*serve(1.5), WaitIdle(8.0), Wait(within=20.0), *STOP],
        restart=False,
    ),
)

_TOKENS = (
    of_engine(
        "E2/one-worker",
        "one replica of one worker, whose KV cache is smaller than what the requests need",
        *[*up(rate=30.0, prompt_tokens=40, max_tokens=60), *serve(2.0), *COMPARED],
        blocks=12,
    ),
    of_engine(
        "E2/tensor-parallel",
        "two workers compute each token together; one of them is killed, and comes back",
        *[
            *up(rate=8.0, together=2, max_tokens=160),
            *serve(1.5, 2),
            *killed("core-0/worker-1", 1.0),
            *COMPARED,
        ],
        tensor_parallel=2,
    ),
    of_engine(
        "E2/data-parallel",
        "two replicas step together",
        *[*up(), *serve(2.0), *COMPARED],
        data_parallel=2,
    ),
    of_engine(
        "E2/apart",
        "one replica prefills, another one decodes",
        *[*up(), *serve(2.0), *COMPARED],
        prefill=1,
    ),
)

CASES: tuple[Case, ...] = (*_ENDS, *_TOKENS)
