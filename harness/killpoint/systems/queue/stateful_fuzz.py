"""State machine of a whole queue: Hypothesis draws stories, a model knows what they owe."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from killpoint.scenario import Attach, Make, Ready, Receive, Scenario, Send, Wait
from killpoint.search.case_run import CaseRun
from killpoint.search.generated import generated
from killpoint.systems.queue.boundary_fuzz import messages
from killpoint.systems.queue.model import QueueModel
from killpoint.targets.shapes import QueueShape

_SHORT = 0.15


@st.composite
def stories(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """Sends, receives and calls that must time out, of several readers, in any order.

    The model keeps a story honest: it knows when a send finds the ring full and when a reader has
    nothing to read, so those calls get a short deadline, and all others must succeed.
    """
    chunk = draw(st.sampled_from([128, 1024]))
    shape = QueueShape(
        readers=draw(st.integers(1, 3)), chunk_bytes=chunk, chunks=draw(st.integers(1, 3))
    )
    model = QueueModel(shape.readers, shape.chunks)
    steps: list[Any] = [Make(), Attach(), Ready(timeout=10.0)]
    for _ in range(draw(st.integers(1, 14))):
        actor = draw(st.integers(-1, shape.readers - 1))
        if actor < 0:
            fits = model.send()
            step = Send([draw(messages(chunk))], timeout=10.0 if fits else _SHORT)
            steps += [step, Wait(("writer",), within=20.0)]
        else:
            there = model.receive(actor)
            role = f"reader-{actor}"
            step = Receive(1, (role,), timeout=10.0 if there else _SHORT)
            steps += [step, Wait((role,), within=20.0)]
    if model.send():
        steps.append(Send([draw(messages(chunk))], timeout=10.0))
    for reader, behind in enumerate(model.behind()):
        if behind:
            steps += [Receive(behind, (f"reader-{reader}",), timeout=10.0)]
    return Scenario(case, [case.split("/")[0]], [*steps, Wait(within=30.0)], shape=shape, seed=seed)


def fuzz_stories(case_run: CaseRun, case: str, examples: int) -> None:
    """Play stories until one is violated; the outcome reports the shrunk one."""
    generated(case_run, stories(case, case_run.seed), examples)
