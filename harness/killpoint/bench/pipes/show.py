"""Rendering of a run of ``killpoint bench pipe``: ratios first, then figures."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from killpoint.bench.format import quietness, spread, title, told, where
from killpoint.bench.pipes.run import PipeOutcome
from killpoint.bench.run import Figures
from killpoint.bench.workload import show_size


def text(outcome: PipeOutcome) -> str:
    """The whole report."""
    return "\n".join((*_head(outcome), "", *_ratios(outcome), "", *_figures(outcome)))


def json(outcome: PipeOutcome) -> str:
    """Return every sample and the ratios, as JSON."""
    whole = msgspec.to_builtins(outcome)
    for shown in whole["trips"].values():
        del shown["trips"]
    ratios = {name: outcome.ratio(name) for name in outcome.trips if name != outcome.target}
    whole["ratios"] = msgspec.to_builtins(ratios)
    return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode() + "\n"


def _head(outcome: PipeOutcome) -> Iterator[str]:
    yield title("pipe", outcome.target, outcome.versions)
    yield where(outcome.machine, outcome.seed)
    yield from quietness(outcome.meanwhile)


def _ratios(outcome: PipeOutcome) -> Iterator[str]:
    pace, size = outcome.pace, show_size(outcome.pace.nbytes)
    yield f"How many times as fast {outcome.target} is (peer/target); above 1 it is better."
    yield (
        "median of pairs taken side by side [interval of the median, by order statistics]; "
        f"{pace.groups * pace.rounds} pairs of {pace.trips} trips from {pace.groups} fresh starts"
    )
    for name in outcome.trips:
        if name != outcome.target:
            yield f"  a tensor of {size} on the CPU, to {name}: {told(outcome.ratio(name))}"


def _figures(outcome: PipeOutcome) -> Iterator[str]:
    yield "Figures: median (least - most) of the samples; a sample is the median of its trips"
    for name, figures in outcome.trips.items():
        yield f"  {name}: {_spread(figures, outcome.pace.nbytes)}"
    yield from (f"  {name}: {why}" for name, why in outcome.missing.items())


def _spread(figures: Figures, nbytes: int) -> str:
    found = figures.summary()
    rate = f", {nbytes / 1e6 / found.median:.3g} GB/s" if found else ""
    return spread(figures, "ms") + rate
