"""Sizes around the overflow boundary, chosen by Hypothesis and shrunk when they fail."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase

from killpoint.extras import installed
from killpoint.scenario import (
    Attach,
    Make,
    Message,
    MessageKind,
    Ready,
    Receive,
    Scenario,
    Send,
    Wait,
)
from killpoint.search.case_run import CaseRun, Violated
from killpoint.targets.shapes import QueueShape

KINDS: tuple[MessageKind, ...] = ("bytes", "array", "tensor", "nested", "buffers", "shapes")


def sizes(chunk_bytes: int) -> st.SearchStrategy[int]:
    """Sizes that crowd around the chunk size, small ones, and a few large ones."""
    around = st.integers(max(0, chunk_bytes - 1500), chunk_bytes + 8)
    return st.one_of(st.integers(0, 300), around, around, st.integers(0, 4 * chunk_bytes))


def messages(chunk_bytes: int) -> st.SearchStrategy[Message]:
    """One message of any kind; where torch is not installed, of any but a tensor."""
    kinds = [kind for kind in KINDS if kind != "tensor" or installed("torch")]
    return st.builds(
        Message, kind=st.sampled_from(kinds), size=sizes(chunk_bytes), buffers=st.integers(0, 4)
    )


@st.composite
def workloads(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A queue of any shape and a run of messages that every reader must get."""
    chunk = draw(st.sampled_from([64, 256, 1024, 4096, 65536]))
    shape = QueueShape(
        readers=draw(st.integers(1, 3)), chunk_bytes=chunk, chunks=draw(st.integers(1, 4))
    )
    batch = draw(st.lists(messages(chunk), min_size=1, max_size=24))
    steps: list[Any] = [Make(), Attach(), Ready(timeout=10.0)]
    steps += [Send(batch, timeout=9.0, mutate=False), Receive(len(batch), timeout=9.0)]
    steps += [Wait(within=40.0)]
    return Scenario(case, [case.split("/")[0]], steps, shape=shape, seed=seed)


def fuzz_messages(case_run: CaseRun, case: str, examples: int) -> None:
    """Play workloads until one is violated; the outcome then reports the shrunk one."""
    fuzz(case_run, workloads(case, case_run.seed), examples)


def fuzz(case_run: CaseRun, scenarios: st.SearchStrategy[Scenario], examples: int) -> None:
    """Let Hypothesis choose scenarios, and shrink the first that violates.

    With a folder of examples, those that violated before are played first.

    Raises:
        Violated: the smallest violating scenario found has been recorded in the outcome.
    """
    case_run.keeps_latest = True
    known = DirectoryBasedExampleDatabase(case_run.examples) if case_run.examples else None

    @settings(  # above the seed, which would take the database away again
        max_examples=examples,
        database=known,
        derandomize=False,  # what a profile may ask for, and no database goes with
        deadline=None,
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=(
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.large_base_example,
        ),
        print_blob=False,
        report_multiple_bugs=False,
    )
    @seeded(case_run.seed)
    @given(scenarios)
    def attempt(scenario: Scenario) -> None:
        case_run.play(scenario)

    try:
        attempt()
    except Violated:
        raise
    except BaseExceptionGroup as group:
        # Hypothesis wraps what failed on one try and not on the next; a recorded violation stays.
        if case_run.outcome.outcome == "violated":
            raise Violated(case_run.outcome.cause) from group
        raise group.exceptions[0] from group
