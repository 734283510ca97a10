"""The cases of a mailbox."""

from __future__ import annotations

import msgspec

from killpoint.case import Case
from killpoint.scenario import AnyStep, Fault, Scenario, Wait
from killpoint.search.case_run import CaseRun
from killpoint_mailbox.steps import (
    LetterPost,
    LetterTake,
    MailboxConnect,
    MailboxOpen,
    MailboxShape,
)

_OPEN: list[AnyStep] = [MailboxOpen(), MailboxConnect(), Wait(within=10.0)]


def _case(id: str, summary: str, *steps: AnyStep, posters: int = 2) -> Case:
    shape = MailboxShape(posters=posters)
    scenario = Scenario(id, [id.split("/")[0]], [*_OPEN, *steps], extension=shape)

    def run(case_run: CaseRun) -> None:
        case_run.play(msgspec.structs.replace(scenario, seed=case_run.seed))

    return Case(id, summary, run, frozenset({"mailbox"}))


CASES = (
    _case(
        "M1/two-posters",
        "two posters post, and the owner takes it all",
        *[LetterPost(count=4), LetterTake(count=8), Wait(within=15.0)],
    ),
    _case(
        "M1/many-at-once",
        "five posters post twenty letters each before the owner takes the first",
        *[LetterPost(count=20), Wait(within=10.0), LetterTake(count=100), Wait(within=15.0)],
        posters=5,
    ),
    _case(
        "M2/poster-killed",
        "a poster is killed while the owner waits for its next letter",
        *[LetterPost(), LetterTake(count=2), Wait(within=10.0)],
        *[LetterTake(), Fault("kill", "poster-1"), Wait(("owner",), within=10.0)],
    ),
)
