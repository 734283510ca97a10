"""Tensors that Hypothesis chooses: every dtype, shape, layout and None, in any order and number."""

from __future__ import annotations

from hypothesis import strategies as st

from killpoint.scenario import (
    DTYPES,
    LAYOUTS,
    AnyStep,
    PipeDrain,
    PipeOpen,
    PipeReceive,
    PipeSend,
    Scenario,
    Tensor,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.generated import generated
from killpoint.targets.shapes import PipeShape

_LARGEST = 40_000
"""Elements of a tensor: more than a buffer of the smallest size chosen here can hold."""


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    """From no dimension to 14 of them, zeros among them, never too many elements."""
    dimensions = draw(st.one_of(st.integers(0, 4), st.integers(0, 14)))
    left, found = _LARGEST, list[int]()
    for _ in range(dimensions):
        extent = draw(st.one_of(st.integers(0, 3), st.integers(0, max(1, min(left, 2000)))))
        found.append(extent)
        left //= max(1, extent)
    return tuple(found)


def tensors() -> st.SearchStrategy[Tensor]:
    """One tensor, or None."""
    some = st.builds(
        Tensor,
        dtype=st.sampled_from(DTYPES),
        shape=shapes(),
        layout=st.sampled_from(LAYOUTS),
    )
    return st.one_of(some, some, some, st.just(Tensor(form="none")))


@st.composite
def workloads(draw: st.DrawFn, case: str, seed: int, device: str) -> Scenario:
    """A pipe of any size, and runs of tensors from each rank to the next."""
    size = draw(st.sampled_from((2, 2, 2, 3)))
    limit = draw(st.sampled_from((1, 4096, 1 << 20)))
    roles = [f"pipe-{rank}" for rank in range(size)]
    steps: list[AnyStep] = [PipeOpen(), Wait(within=30.0)]
    for place, role in enumerate(roles):
        batch = draw(st.lists(tensors(), min_size=1, max_size=24))
        steps += [PipeReceive((roles[(place + 1) % size],), len(batch)), PipeSend(role, batch)]
        steps += [Wait(within=20.0)]
    steps += [PipeDrain(), Wait(within=10.0)]
    shape = PipeShape(size=size, buffer_bytes=limit, device="cuda" if device == "cuda" else "cpu")
    return Scenario(case, [case.split("/")[0]], steps, pipe=shape, seed=seed)


def fuzz_tensors(case_run: CaseRun, case: str, examples: int, device: str = "cpu") -> None:
    """Play workloads until one is violated; the outcome reports the shrunk one."""
    generated(case_run, workloads(case, case_run.seed, device), examples)
