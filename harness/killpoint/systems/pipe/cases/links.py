"""Cases of a pipe's links that are reset, cut or deaf once some bytes have gone by (K3)."""

from __future__ import annotations

from killpoint.case import Case
from killpoint.scenario import Fault, FaultName
from killpoint.search.case_run import CaseRun
from killpoint.systems.pipe.link_sweeps import Story, broken, healed, silent, sweep_links


def _harmed(id: str, summary: str, samples: int, fault: FaultName, story: Story) -> Case:
    def run(case_run: CaseRun) -> None:
        sweep_links(case_run, samples, Fault(fault, "pipe-1"), story)

    return Case(id, summary, run, frozenset({"pipe"}))


CASES: tuple[Case, ...] = (
    _harmed(
        "K3/links-reset",
        "a pipe's links are reset within what announces a tensor, its bytes, or between two",
        6,
        "reset",
        broken,
    ),
    _harmed(
        "K3/links-cut-and-healed",
        "links are cut within a tensor, past a receive's deadline, and heal; all of it comes",
        4,
        "cut",
        healed,
    ),
    _harmed(
        "K3/links-cut",
        "links are cut within a tensor for good; calls and the close end by their own deadlines",
        2,
        "cut",
        silent,
    ),
    _harmed(
        "K3/links-half-open",
        "links go half-open within a tensor: every call and the close end in time",
        2,
        "half-open",
        silent,
    ),
)
