"""Building blocks of plays of coordinators."""

from __future__ import annotations

from typing import Any

import msgspec

from killpoint.case import Case
from killpoint.scenario import (
    AnyStep,
    Connect,
    CoordinatorStart,
    Counts,
    Fault,
    Flood,
    Forge,
    ReportCounts,
    Request,
    Scenario,
    Wait,
    WaitNews,
)
from killpoint.search.case_run import CaseRun
from killpoint.targets.coordinator_protocol import CoordinatorShape

START_COORDINATOR: list[AnyStep] = [CoordinatorStart(timeout=30.0), Wait(within=40.0)]
"""The coordinator listens, and no peer has connected."""
FIRST, SECOND, FRONT = "engine-0", "engine-1", "front-end-0"
_OPENED: list[AnyStep] = [Connect(), WaitNews(("front-ends",), "state"), Wait(within=20.0)]
START_AND_CONNECT: list[AnyStep] = [*START_COORDINATOR, *_OPENED]
"""All peers listen, and the front ends have heard of all engines."""


def stepping(*engines: str) -> list[AnyStep]:
    """A request comes to each of these, and is in a wave."""
    return [Request(engines), WaitNews(engines, "stepped"), Wait(within=9.0)]


def heard(engine: str, counts: Counts, *fronts: str, rank: int | None = None) -> list[AnyStep]:
    """An engine tells counts, and front ends hear of them."""
    number = int(engine.rsplit("-", 1)[1]) if rank is None else rank
    told = WaitNews(fronts or (FRONT,), "counts", rank=number, counts=counts, within=4.0)
    return [ReportCounts(engine, counts), told, Wait(within=9.0)]


def until(what: Any, *roles: str, rank: int | None = None) -> list[AnyStep]:
    """These roles hear of something.

    If they do not, the play goes on past a judge's limit, and what that allows a busy machine.
    """
    return [WaitNews(roles, what, rank=rank, within=10.0), Wait(within=12.0)]


def coordinator_case(
    id: str,
    summary: str,
    *stories: list[AnyStep],
    namespaces: bool = False,
    restart: bool = False,
    umask: int | None = None,
    needs: tuple[str, ...] = (),
    **shape: Any,
) -> Case:
    """A case of some stories, all with peers of the same number."""

    def run(case_run: CaseRun) -> None:
        for story in stories:
            made = Scenario(
                id,
                [id.split("/")[0]],
                story,
                coordinator=CoordinatorShape(**shape),
                namespaces=namespaces,
                restart=restart,
                umask=umask,
            )
            case_run.play(msgspec.structs.replace(made, seed=case_run.seed))

    return Case(id, summary, run, frozenset({"coordinator_process", *needs}))


def gone(fault: Any, role: str) -> Fault:
    """A fault at once."""
    return Fault(fault, role)


def lies(role: str, *words: Any) -> list[AnyStep]:
    """One lie after the other; beside each counts of its own, where the message carries them."""
    return [Forge(role, word, counts=(20 + n, 2)) for n, word in enumerate(words)]


def pour(*roles: str, seconds: float, lie: Any = None) -> Flood:
    """A flood, of counts that are known already or of lies."""
    return Flood(roles, seconds, lie)
