"""Programs for a whole group: Hypothesis writes them, and every call in them must succeed."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from killpoint.scenario import (
    Barrier,
    Broadcast,
    Gather,
    Join,
    Message,
    MessageKind,
    ReceiveFrom,
    Scenario,
    SendTo,
    Wait,
)
from killpoint.search.case_run import CaseRun
from killpoint.search.generated import generated
from killpoint.targets.shapes import GroupShape

_KINDS: tuple[MessageKind, ...] = ("bytes", "array", "nested")
_TIMEOUT = 15.0


def objects() -> st.SearchStrategy[Message]:
    """One object, mostly small: what is not yet received need not fit anywhere."""
    sizes = st.one_of(st.integers(0, 300), st.integers(0, 20_000))
    return st.builds(Message, kind=st.sampled_from(_KINDS), size=sizes)


@st.composite
def programs(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """Sends that are received at once or later, and collective calls between them."""
    count = draw(st.integers(2, 4))
    roles = [f"rank-{rank}" for rank in range(count)]
    steps: list[Any] = [Join(), Wait(within=30.0)]
    owed: dict[tuple[str, str], int] = {}
    for _ in range(draw(st.integers(1, 12))):
        act = draw(st.sampled_from(("send", "send", "receive", "broadcast", "gather", "barrier")))
        if act == "send":
            source, to = draw(st.permutations(roles))[:2]
            batch = draw(st.lists(objects(), min_size=1, max_size=3))
            steps.append(SendTo(source, to, batch))
            owed[source, to] = owed.get((source, to), 0) + len(batch)
        elif act == "receive" and owed:
            source, to = draw(st.sampled_from(sorted(owed)))
            taken = draw(st.integers(1, owed[source, to]))
            steps.append(ReceiveFrom((to,), source, taken, timeout=_TIMEOUT))
            owed[source, to] -= taken
            if not owed[source, to]:
                del owed[source, to]
        elif act == "broadcast":
            steps.append(
                Broadcast(draw(st.sampled_from(roles)), [draw(objects())], timeout=_TIMEOUT)
            )
        elif act == "gather":
            steps.append(Gather(draw(objects()), timeout=_TIMEOUT))
        elif act == "barrier":
            steps.append(Barrier())
    for (source, to), left in sorted(owed.items()):
        steps.append(ReceiveFrom((to,), source, left, timeout=_TIMEOUT))
    if len(steps) == 2:
        steps.append(Gather(timeout=_TIMEOUT))
    steps.append(Wait(within=40.0))
    judges = [case.split("/")[0]]
    return Scenario(case, judges, steps, group=GroupShape(ranks=count), seed=seed)


def fuzz_group_stories(case_run: CaseRun, case: str, examples: int) -> None:
    """Play programs until one is violated; the outcome reports the shrunk one."""
    generated(case_run, programs(case, case_run.seed), examples)
