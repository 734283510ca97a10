"""A picture of a run: for how long the streams of each server stood still, fault by fault."""

from __future__ import annotations

import math
from collections.abc import Iterator
from xml.sax.saxutils import escape

from killpoint.bench.recovery.run import Measured, Recovery
from killpoint.bench.statistics import quantile

_COLOURS = ("#1b6ca8", "#c8553d", "#3c8d5a", "#8f5fb0", "#b58900", "#555555")
_LEFT, _WIDE, _ROW, _TOP = 190, 560, 14, 50
_LEAST, _MOST = 0.1, 100.0
"""Seconds at both ends of the scale, which is logarithmic."""


def svg(run: Recovery) -> str:
    """The picture, as an SVG document."""
    faults = run.faults()
    group = _ROW * len(run.servers) + 10
    high = _TOP + group * len(faults) + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDE + 90}" height="{high}"'
        ' font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="14">stall of streams in flight, p50 to p99, seconds; right of it: '
        "requests in flight that got no whole answer</text>",
        *_legend(run),
        *_scale(high),
    ]
    for at, fault in enumerate(faults):
        top = _TOP + at * group
        lines.append(f'<text x="8" y="{top + 11}">{escape(fault)}</text>')
        for place, server in enumerate(run.servers):
            colour = _COLOURS[place % len(_COLOURS)]
            lines += _bar(run.of(server.spec, fault), top + place * _ROW, colour)
    return "\n".join([*lines, "</svg>", ""])


def _legend(run: Recovery) -> Iterator[str]:
    x = _LEFT
    for place, server in enumerate(run.servers):
        colour = _COLOURS[place % len(_COLOURS)]
        yield f'<rect x="{x}" y="20" width="9" height="9" fill="{colour}"/>'
        yield f'<text x="{x + 13}" y="28">{escape(server.spec)}</text>'
        x += 26 + 6 * len(server.spec)


def _scale(high: int) -> Iterator[str]:
    for seconds in (0.1, 1.0, 10.0, 100.0):
        x = _x(seconds)
        yield f'<line x1="{x:.0f}" x2="{x:.0f}" y1="40" y2="{high - 22}" stroke="#ddd"/>'
        yield f'<text x="{x:.0f}" y="{high - 8}" text-anchor="middle">{seconds:g} s</text>'


def _bar(rounds: list[Measured], top: int, colour: str) -> Iterator[str]:
    after = [each.after for each in rounds if each.after is not None]
    stalls = [stall for each in after for stall in each.stalls_s]
    if not stalls:
        said = "not measured" if not after else "no stream was in flight"
        yield f'<text x="{_LEFT}" y="{top + 10}" fill="#999">{said}</text>'
        return
    low, high = _x(quantile(stalls, 0.5)), _x(quantile(stalls, 0.99))
    wide = max(2.0, high - low)
    yield f'<rect x="{low:.1f}" y="{top + 2}" width="{wide:.1f}" height="9" fill="{colour}"/>'
    flying = sum(sum(each.in_flight.values()) for each in after)
    whole = sum(each.in_flight.get("whole", 0) for each in after)
    told = f"{flying - whole}/{flying}"
    yield f'<text x="{low + wide + 4:.1f}" y="{top + 10}">{told}</text>'


def _x(seconds: float) -> float:
    bounded = min(max(seconds, _LEAST), _MOST)
    return _LEFT + _WIDE * math.log(bounded / _LEAST) / math.log(_MOST / _LEAST)
