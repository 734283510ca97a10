"""Cases of a coordinator whose peers live on other hosts, and lose their link to it (C6)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import Fault, Pause, ReportCounts, Request, Wait, WaitNews
from killpoint.systems.coordinator.cases.builders import (
    FIRST,
    FRONT,
    SECOND,
    START_AND_CONNECT,
    coordinator_case,
    heard,
    stepping,
    until,
)

HOSTS: tuple[Case, ...] = (
    coordinator_case(
        "C6/remote-engine-killed",
        "an engine on another host is killed in a wave: no supervisor of this host can see it",
        [
            *START_AND_CONNECT,
            *heard(SECOND, (4, 2)),
            *stepping(FIRST, SECOND),
            Fault("kill", SECOND),
            *until("gone", FRONT, rank=1),
            *until("without", FIRST, rank=1),
            *heard(FIRST, (2, 1)),
            *stepping(FIRST),
        ],
        namespaces=True,
    ),
    coordinator_case(
        "C6/host-cut-past-silence",
        "an engine's host is cut off in a wave for longer than the silence, and comes back",
        [
            *START_AND_CONNECT,
            *heard(SECOND, (4, 2)),
            *stepping(FIRST, SECOND),
            Fault("cut", SECOND),
            *until("gone", FRONT, rank=1),
            *until("without", FIRST, rank=1),
            *stepping(FIRST),
            *heard(FIRST, (2, 1)),
            *until("lost", SECOND),
            ReportCounts(SECOND, (8, 1)),
            Request((SECOND,)),
            Fault("heal", SECOND),
            *until("back", FRONT, rank=1),
            WaitNews((FRONT,), "counts", rank=1, counts=(8, 1)),
            *until("found", SECOND),
            *until("stepped", SECOND),
            *heard(SECOND, (6, 1)),
        ],
        namespaces=True,
    ),
    coordinator_case(
        "C6/host-cut-briefly",
        "a cut shorter than the silence, of an engine and of a front end: nothing is lost",
        [
            *START_AND_CONNECT,
            *heard(SECOND, (4, 2)),
            *stepping(FIRST),
            Fault("cut", SECOND),
            Fault("cut", FRONT),
            Request((SECOND,)),
            ReportCounts(SECOND, (8, 1)),
            Pause(1.5),
            Fault("heal", SECOND),
            Fault("heal", FRONT),
            Wait(within=9.0),
            WaitNews((FRONT,), "counts", rank=1, counts=(8, 1)),
            *until("stepped", SECOND),
            *heard(SECOND, (6, 1)),
        ],
        namespaces=True,
    ),
)
