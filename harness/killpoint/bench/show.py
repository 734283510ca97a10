"""Rendering of a run: ratios first, then figures; the machine at the head; the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from killpoint.bench.format import quietness, title, where
from killpoint.bench.run import Entry, Figures, Outcome
from killpoint.bench.statistics import Ratio, Summary
from killpoint.bench.workload import show_size


def text(outcome: Outcome) -> str:
    """The whole report."""
    return "\n".join(
        (
            *_head(outcome),
            "",
            *_ratios(outcome),
            "",
            *_absolute(outcome),
            *_remarks(outcome),
        )
    )


def json(outcome: Outcome) -> str:
    """The report as data: every sample, summaries and ratios (but not every round trip)."""
    whole = msgspec.to_builtins(outcome)
    for shown, entry in zip(whole["entries"], outcome.entries, strict=True):
        for name, figures in entry.figures.items():
            trips = shown["figures"][name].pop("trips")
            shown["figures"][name]["summary"] = msgspec.to_builtins(figures.summary())
            if trips:
                shown["figures"][name] |= {
                    "trips": len(trips),
                    "least": figures.trip(0.0),
                    "p50": figures.trip(0.5),
                    "p99": figures.trip(0.99),
                }
        shown["ratios"] = {
            name: msgspec.to_builtins(ratio)
            for name in entry.figures
            if name != outcome.target and (ratio := entry.ratio(outcome.target, name))
        }
    return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode() + "\n"


def _head(outcome: Outcome) -> Iterator[str]:
    yield title("queue", outcome.target, outcome.versions)
    yield where(outcome.machine, outcome.seed)
    before, after = _load(outcome.machine.load), _load(outcome.meanwhile.load)
    later = f"{outcome.meanwhile.seconds:.0f} s later"
    yield f"load average: {before} at the start, {after} at the end, {later}"
    yield from quietness(outcome.meanwhile)
    yield (
        f"queues: {outcome.chunks} chunks of {show_size(outcome.chunk_bytes)}; array: "
        '{"step": number, "data": numpy uint8 array}; bytes: number and filling;'
    )
    yield "  readers look at number, length and last byte; limit: one copy, or one wake-up"


def _load(load: tuple[float, float, float]) -> str:
    return " ".join(f"{one:.2f}" for one in load)


def _ratios(outcome: Outcome) -> Iterator[str]:
    pace = outcome.pace
    yield (
        f"How many times as good {outcome.target} is (messages/s: target/peer; times: "
        "peer/target); above 1 it is better."
    )
    yield (
        "median of pairs taken side by side [95 % interval of the median, by order statistics]; "
        f"{pace.groups * pace.rounds} pairs from {pace.groups} fresh starts, wake {pace.wakes}"
    )
    peers = _peers(outcome)
    lines = [["", *(f"to {peer}" for peer in peers)]]
    for entry in outcome.entries:
        if entry.cell.row != "cpu":
            ratios = [_ratio(entry, outcome.target, peer) for peer in peers]
            lines.append([entry.what, *ratios])
    yield from _table(lines)


def _ratio(entry: Entry, target: str, peer: str) -> str:
    ratio = entry.ratio(target, peer)
    if ratio is None:
        return "-"
    return f"{_short(ratio.median)} [{_short(ratio.low)}, {_short(ratio.high)}]{_doubt(ratio)}"


def _doubt(ratio: Ratio) -> str:
    return "" if ratio.coverage >= 0.95 else f" ({ratio.coverage:.0%})"


def _absolute(outcome: Outcome) -> Iterator[str]:
    names = [outcome.target, *_peers(outcome)]
    yield "Figures: median (least - most) of the samples"
    lines = [["", *names]]
    for entry in outcome.entries:
        lines.append([entry.what, *(_figure(entry, entry.figures[name]) for name in names)])
        if entry.cell.row == "roundtrip":
            lines.append(["  min / p99", *(_trips(entry.figures[name]) for name in names)])
        if entry.cell.row == "throughput":
            lines.append(["  GB/s", *(_rate(entry, entry.figures[name]) for name in names)])
    yield from _table(lines)


def _figure(entry: Entry, figures: Figures) -> str:
    found = figures.summary()
    if found is None:
        return "-"
    if entry.cell.row == "cpu":
        return f"{found.median:.3f} %"
    unit = "/s" if entry.cell.row == "throughput" else "us"
    return f"{_spread(found)} {unit}"


def _rate(entry: Entry, figures: Figures) -> str:
    found = figures.summary()
    if found is None or entry.cell.payload is None:
        return "-"
    return f"{_short(found.median * entry.cell.payload.size / 1e9)} GB/s"


def _trips(figures: Figures) -> str:
    least, late = figures.trip(0.0), figures.trip(0.99)
    return "-" if least is None or late is None else f"{_short(least)} / {_short(late)} us"


def _spread(found: Summary) -> str:
    return f"{_short(found.median)} ({_short(found.least)} - {_short(found.most)})"


def _short(figure: float) -> str:
    if figure >= 1000:
        return f"{figure:,.0f}"
    return f"{figure:.3g}"


def _remarks(outcome: Outcome) -> Iterator[str]:
    reasons = [outcome.interrupted] if outcome.interrupted else []
    reasons += [f"{name}: {why}" for name, why in outcome.missing.items()]
    reasons += [
        f"{entry.what}: {name}: {figures.missing}"
        for entry in outcome.entries
        for name, figures in entry.figures.items()
        if figures.missing
    ]
    if reasons or outcome.notes:
        yield ""
        yield "Not measured, and why:" if reasons else "Remarks:"
        yield from (f"  {reason}" for reason in (*reasons, *outcome.notes))


def _peers(outcome: Outcome) -> list[str]:
    names = list(outcome.entries[0].figures) if outcome.entries else []
    return [name for name in names if name != outcome.target]


def _table(lines: list[list[str]]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    for first, *rest in lines:
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()
