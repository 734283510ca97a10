"""The rules of the Chrome trace-event format, and those of Perfetto's importer, as claims."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import Any

_NEEDS = {"ph", "name", "pid", "tid", "ts"}
_HAIR = 1e-4
"""µs: a tenth of the clock's own step."""


def rules(text: str) -> dict[str, list[dict[str, Any]]]:
    """Claim that a file is a trace; its events by phase."""
    found = json.loads(text)
    assert isinstance(found["traceEvents"], list)
    by: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in found["traceEvents"]:
        assert event.keys() >= _NEEDS, event
        assert event["ts"] >= 0, event
        by[event["ph"]].append(event)
    assert set(by) <= set("XiMCsf"), "a phase whose rules are not claimed here"
    assert all(event["dur"] > 0 for event in by["X"])
    assert all(event["s"] in "gpt" for event in by["i"])
    assert all(isinstance(v, int | float) for e in by["C"] for v in e["args"].values())
    named = {event["pid"] for event in by["M"] if event["name"] == "process_name"}
    assert {event["pid"] for event in found["traceEvents"]} <= named
    _nested(by["X"])
    _paired(by)
    return by


def _nested(spans: list[dict[str, Any]]) -> None:
    """No two of one thread cross."""
    open: dict[tuple[int, int], list[float]] = defaultdict(list)
    for span in sorted(spans, key=lambda s: (s["ts"], -s["dur"])):
        around = open[span["pid"], span["tid"]]
        while around and around[-1] <= span["ts"] + _HAIR:
            around.pop()
        end = span["ts"] + span["dur"]
        assert not around or end <= around[-1] + _HAIR, span
        around.append(end)


def _paired(by: dict[str, list[dict[str, Any]]]) -> None:
    """One begin and one end for each arrow, in this order, each inside a span of its thread."""
    assert Counter(e["id"] for e in by["s"]) == Counter(e["id"] for e in by["f"])
    assert all(count == 1 for count in Counter(e["id"] for e in by["s"]).values())
    begun = {event["id"]: event for event in by["s"]}
    for end in by["f"]:
        assert end["bp"] == "e", end
        assert begun[end["id"]]["ts"] <= end["ts"], end
    for event in by["s"] + by["f"]:
        assert any(
            (x["pid"], x["tid"]) == (event["pid"], event["tid"])
            and x["ts"] - _HAIR <= event["ts"] < x["ts"] + x["dur"]
            for x in by["X"]
        ), event
