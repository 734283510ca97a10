"""Sizes around the overflow boundary, chosen by Hypothesis and shrunk when they fail."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

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
from killpoint.search.case_run import CaseRun
from killpoint.search.generated import generated
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
    generated(case_run, workloads(case, case_run.seed), examples)
