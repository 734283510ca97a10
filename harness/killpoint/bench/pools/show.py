"""Rendering of a run of ``killpoint bench pool``: ratios first, then figures."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from killpoint.bench.format import quietness, spread, title, told, where
from killpoint.bench.pools.run import PoolOutcome


def text(outcome: PoolOutcome) -> str:
    """The whole report."""
    return "\n".join((*_head(outcome), "", *_ratios(outcome), "", *_figures(outcome)))


def json(outcome: PoolOutcome) -> str:
    """Return every sample and the ratios, as JSON; of single calls only their quantiles."""
    whole = msgspec.to_builtins(outcome)
    for name, figures in outcome.calls.items():
        shown = whole["calls"][name]
        del shown["trips"]
        shown |= {"p50": figures.trip(0.5), "p99": figures.trip(0.99)}
    for shown in whole["starts"].values():
        del shown["trips"]
    ratios = {name: outcome.ratio(name) for name in outcome.calls if name != outcome.target}
    whole["ratios"] = msgspec.to_builtins(ratios)
    whole["start_ratio"] = msgspec.to_builtins(outcome.start_ratio())
    return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode() + "\n"


def _head(outcome: PoolOutcome) -> Iterator[str]:
    yield title("pool", outcome.target, outcome.versions)
    yield where(outcome.machine, outcome.seed)
    yield from quietness(outcome.meanwhile)


def _ratios(outcome: PoolOutcome) -> Iterator[str]:
    pace = outcome.pace
    yield f"How many times as fast {outcome.target} is (peer/target); above 1 it is better."
    yield (
        "median of pairs taken side by side [interval of the median, by order statistics]; "
        f"{pace.groups * pace.rounds} pairs of {pace.calls} calls from {pace.groups} fresh starts"
    )
    for name in outcome.calls:
        if name != outcome.target:
            yield f"  a call that does nothing, 2 workers, to {name}: {told(outcome.ratio(name))}"
    start = told(outcome.start_ratio())
    yield f"  4 workers with torch ready, by the default start, to spawn: {start}"


def _figures(outcome: PoolOutcome) -> Iterator[str]:
    yield "Figures: median (least - most) of the samples; a call's sample is its run's median"
    for name, figures in outcome.calls.items():
        late = figures.trip(0.99)
        tail = "" if late is None else f", p99 of all calls {late:.0f} us"
        yield f"  call, {name}: {spread(figures, 'us')}{tail}"
    for method, figures in outcome.starts.items():
        yield f"  ready, {method}: {spread(figures, 's')}"
    yield from (f"  {name}: {why}" for name, why in outcome.missing.items())
