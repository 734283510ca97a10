"""Programs for all ranks of a group at once, drawn by Hypothesis (H2).

Objects wait in several lanes while ranks receive from others, with deadlines that some receives run
into; broadcasts, gathers and barriers follow each other between them. Groups of one rank are drawn,
too.
"""

from __future__ import annotations

from hypothesis import strategies as st

from killpoint.scenario import (
    AnyStep,
    Barrier,
    Broadcast,
    Gather,
    Join,
    Pause,
    ReceiveFrom,
    Scenario,
    SendTo,
    Wait,
)
from killpoint.systems.group.fuzz import objects
from killpoint.targets.shapes import GroupShape

_RANKS = (1, 2, 3, 5)
_SOON = (0.02, 0.06, 0.15)
"""Seconds that a receive may take and often runs into."""
_LATE = 20.0
"""Seconds within which every call can succeed."""
_DRAINED_AFTER = 0.25
"""Seconds without an object after which a lane is taken to be empty."""
_ACTS = (*["send"] * 4, *["receive"] * 5, "broadcast", "gather", "barrier", "pause")
_ENDED_WITHIN = 90.0


@st.composite
def programs(draw: st.DrawFn, case: str, seed: int) -> Scenario:
    """A program of sends, receives and collective calls; then every lane is emptied."""
    count = draw(st.sampled_from(_RANKS))
    roles = [f"rank-{rank}" for rank in range(count)]
    pairs = [(source, to) for source in roles for to in roles if source != to]
    steps: list[AnyStep] = [Join(), Wait(within=30.0)]
    sent: dict[tuple[str, str], int] = {}
    for _ in range(draw(st.integers(1, 40))):
        act = draw(st.sampled_from(_ACTS))
        if act == "send" and pairs:
            pair = draw(st.sampled_from(pairs))
            batch = draw(st.lists(objects(), min_size=1, max_size=3))
            steps.append(SendTo(*pair, batch))
            sent[pair] = sent.get(pair, 0) + len(batch)
        elif act == "receive" and pairs:
            source, to = draw(st.sampled_from(sorted(sent) or pairs))
            taken, timeout = draw(st.integers(1, 3)), draw(st.sampled_from(_SOON))
            steps.append(ReceiveFrom((to,), source, taken, timeout=timeout, keep_on=True))
        elif act == "broadcast":
            source = draw(st.sampled_from(roles))
            steps.append(Broadcast(source, [draw(objects())], timeout=_LATE))
        elif act == "gather":
            steps.append(Gather(draw(objects()), timeout=_LATE))
        elif act == "barrier":
            steps.append(Barrier(times=draw(st.sampled_from((1, 1, 2))), timeout=_LATE))
        else:
            steps.append(Pause(draw(st.sampled_from((0.01, 0.05)))))
    for (source, to), left in sorted(sent.items()):
        steps.append(ReceiveFrom((to,), source, left + 1, timeout=_DRAINED_AFTER))
    steps += [Gather(timeout=_LATE), Wait(within=_ENDED_WITHIN)]
    return Scenario(case, [case.split("/")[0]], steps, group=GroupShape(ranks=count), seed=seed)
