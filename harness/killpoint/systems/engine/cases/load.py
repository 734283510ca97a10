"""Cases of an engine: every request ends, and with the model's own tokens (E1, E2)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import Fault, Wait, WaitIdle
from killpoint.systems.engine.cases.builders import (
    STOP_AND_COMPARE,
    STOP_ENGINE,
    engine_case,
    keep_load,
    kill_and_recover,
    start_with_load,
)

_ENDS = (
    engine_case(
        "E1/stopped-under-load",
        "some requests are cancelled, some ask for more than fits; the engine is stopped while"
        " others are open",
        *[
            *start_with_load(rate=30.0, max_tokens=150, cancel_every=7, large_every=11),
            *keep_load(2.5),
            *STOP_ENGINE,
        ],
    ),
    engine_case(
        "E1/last-replica-dies",
        "the only replica is stopped, killed once requests wait for it, and nobody starts another"
        " one",
        *[
            *start_with_load(rate=8.0, together=2, max_tokens=200, within=8.0),
            *keep_load(1.5, 1),
            Fault("stop", "core-0"),
            *keep_load(0.6),
            Fault("kill", "core-0"),
        ],
        *[*keep_load(1.5), WaitIdle(8.0), Wait(within=20.0), *STOP_ENGINE],
        restart=False,
    ),
)

_TOKENS = (
    engine_case(
        "E2/one-worker",
        "one replica of one worker, whose KV cache is smaller than what the requests need",
        *[
            *start_with_load(rate=30.0, prompt_tokens=40, max_tokens=60),
            *keep_load(2.0),
            *STOP_AND_COMPARE,
        ],
        blocks=12,
    ),
    engine_case(
        "E2/tensor-parallel",
        "two workers compute each token together; one stands still while requests come, is killed,"
        " and comes back",
        *[
            *start_with_load(rate=8.0, together=2, max_tokens=160),
            *keep_load(1.5, 2),
            Fault("stop", "core-0/worker-1"),
            *keep_load(0.4),
            *kill_and_recover("core-0/worker-1", 1.0),
            *STOP_AND_COMPARE,
        ],
        tensor_parallel=2,
    ),
    engine_case(
        "E2/data-parallel",
        "two replicas step together",
        *[*start_with_load(), *keep_load(2.0), *STOP_AND_COMPARE],
        data_parallel=2,
    ),
    engine_case(
        "E2/apart",
        "one replica prefills, another one decodes",
        *[*start_with_load(), *keep_load(2.0), *STOP_AND_COMPARE],
        prefill=1,
    ),
)

CASES: tuple[Case, ...] = (*_ENDS, *_TOKENS)
