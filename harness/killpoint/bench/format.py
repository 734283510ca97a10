"""Text that all benchmark reports share: the machine, how quiet it was, a ratio, a spread."""

from __future__ import annotations

from collections.abc import Iterator

from killpoint.bench.machine import Machine, Meanwhile
from killpoint.bench.run import Figures
from killpoint.bench.statistics import Ratio

_QUIET = 0.1
"""Cores in use by others, above which a machine is not quiet."""


def title(bench: str, target: str, versions: dict[str, str]) -> str:
    """Return the title: the benchmark, the target and its version."""
    return f"killpoint bench {bench}: {target} {versions.get(target, '')}"


def where(machine: Machine, seed: int) -> str:
    """The machine."""
    return (
        f"machine: {machine.cores} cores, {machine.processor}, Linux {machine.kernel}, "
        f"Python {machine.python}, seed {seed}"
    )


def quietness(meanwhile: Meanwhile) -> Iterator[str]:
    """Yield how much of the machine others used meanwhile, and what that means for the figures."""
    yield (
        f"cores in use meanwhile: {meanwhile.ours:.2f} by this run, {meanwhile.others:.2f} by "
        f"others, {meanwhile.stolen:.2f} stolen by other guests of the host"
    )
    if meanwhile.others + meanwhile.stolen > _QUIET:
        yield "  this machine was not quiet: trust the ratios' intervals, not single figures"


def told(ratio: Ratio | None) -> str:
    """A paired ratio with its interval, and how sure that is if it is not 95 in 100."""
    if ratio is None:
        return "-"
    doubt = "" if ratio.coverage >= 0.95 else f" ({ratio.coverage:.0%})"
    return f"{ratio.median:.3g} [{ratio.low:.3g}, {ratio.high:.3g}]{doubt}"


def spread(figures: Figures, unit: str) -> str:
    """The median of the samples, their least and most; or why there are none."""
    found = figures.summary()
    if found is None:
        return f"- ({figures.missing})" if figures.missing else "-"
    return f"{found.median:.3g} ({found.least:.3g} - {found.most:.3g}) {unit}"
