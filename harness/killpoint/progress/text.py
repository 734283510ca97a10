"""A score in words."""

from __future__ import annotations

from killpoint.progress.progress_state import Running, Score
from killpoint.verdict import CaseOutcome


def span(seconds: float) -> str:
    """A length of time as people say it: ``7 s``, ``3 min 05 s``, ``2 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def headline(score: Score) -> str:
    """Cases done, violations so far, time gone and left."""
    told = [f"{score.done}/{score.total} cases", f"{score.violated} violated"]
    told.append(span(score.elapsed()))
    if score.done < score.total:
        told.append(f"about {span(score.left())} left")
    elif score.violated:
        told.append("looking for smaller scenarios")
    return ", ".join(told)


def sweep(running: Running, now: float) -> str:
    """Return how far a sweep has come; empty where nothing is swept."""
    if not running.points_counted:
        return ""
    rate = running.rate(now)
    pace = f", {rate:.1f}/s" if rate else ""
    return f"{running.points_done} of {running.points_counted} points{pace}"


def longest(score: Score) -> str:
    """The case that goes on for longest; empty if none does."""
    running = score.running()
    if not running:
        return ""
    now = score.clock()
    first = running[0]
    swept = sweep(first, now)
    return f"{first.id} since {span(now - first.since)}" + (f" ({swept})" if swept else "")


def violation(outcome: CaseOutcome) -> str:
    """A violation with the command that replays it; empty if the outcome is none."""
    if outcome.outcome != "violated":
        return ""
    replay = f"\n  killpoint replay {outcome.replay}" if outcome.replay else ""
    return f"✗ {outcome.id}: {outcome.kind}: {outcome.cause}{replay}"
