"""Cases of waking and of sharing: an idle reader (Q8), two threads on one object (Q13).

Two threads on one object race: such a case is played several times, and reported as a rate.
"""

from __future__ import annotations

import msgspec

from killpoint.case import Case
from killpoint.scenario import AnyStep, Message, Pause, Receive, Scenario, Send, Wait, WaitBlocked
from killpoint.search.case_run import CaseRun
from killpoint.search.races import race
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_case, queue_scenario, small
from killpoint.verdict import counted


def _idle() -> list[Scenario]:
    id = "Q8/idle-reader-wakes"
    steps: list[AnyStep] = [*OPEN_QUEUE, Receive(24)]
    for idle in (0.0, 0.05, 1.3, 0.0, 0.3, 1.1, 0.02, 0.1, 0.0, 0.05, 0.02, 0.1):
        steps += [
            WaitBlocked(("readers",)),
            Pause(idle),
            Send([small(2)], timeout=1.0),
            Wait(("writer",)),
        ]
    return [queue_scenario(id, *steps, Wait(within=8.0))]


def _threads(id: str, senders: int, receivers: int) -> Case:
    messages = [small(120), Message("array", 100_000, repeat=6), small(90)]
    played = queue_scenario(
        id,
        *OPEN_QUEUE,
        Send(messages, timeout=5.0, threads=senders, keep_on=True),
        Receive(216, timeout=1.5, threads=receivers),
        Wait(within=20.0),
    )
    of = f"plays with {counted(senders, 'senders')} and {counted(receivers, 'receivers')} at a time"

    def run(case_run: CaseRun) -> None:
        race(case_run, msgspec.structs.replace(played, seed=case_run.seed), of)

    summary = f"{counted(senders, 'sending threads')}, {counted(receivers, 'receiving threads')}"
    return Case(id, summary, run, frozenset({"queue", "deadlines"}))


CASES: tuple[Case, ...] = (
    queue_case("Q8/idle-reader-wakes", "publications after idle times short and long", _idle),
    _threads("Q13/two-senders", 2, 1),
    _threads("Q13/two-receivers", 1, 2),
)
