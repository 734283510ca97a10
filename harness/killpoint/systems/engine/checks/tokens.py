"""Tokens are those of the model run alone, in any topology and through faults (E2)."""

from __future__ import annotations

from typing import cast

import msgspec

from killpoint.checkers.finding import Finding, Inconclusive, hangs
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.engine.record import Life, Request, life, some
from killpoint.verdict import Violation, counted


class ReferenceTokens(msgspec.Struct):
    """Tokens that the model generates when it is run alone."""

    finish: str
    prefixes: list[str]
    """Digests of the first none, one, two… tokens."""


def check_e2_tokens(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """E2."""
    del ledger
    found = hangs(history)
    if found:
        return Finding(found[:1])
    of = life(scenario, history)
    known = {
        event.number("key"): ReferenceTokens(
            event.text("finish"), [str(each) for each in cast("list[object]", prefixes)]
        )
        for event in history.of("alone")
        if isinstance(prefixes := event.data.get("prefixes"), list)
    }
    if not known:
        raise Inconclusive("the model was not run alone")
    whole = 0
    for request in of.requests:
        if request.key in known and request.answer is not None:
            found = _compared(history, of, request, known[request.key])
            if found:
                return Finding(found)
            whole += request.well and request.cancelled is None
    if not whole:
        raise Inconclusive("no request ended well")
    return Finding([], {"answers": whole, "through a fault": _through(of)})


def _through(of: Life) -> int:
    """Requests that were open when something was done to the engine, and ended well."""
    return sum(
        request.well and any(request.open_at(strike.t) for strike in of.strikes)
        for request in of.requests
    )


def _compared(
    history: History, of: Life, request: Request, alone: ReferenceTokens
) -> list[Violation]:
    answer = request.answer
    assert answer is not None
    count, most = answer.number("count", 0), len(alone.prefixes) - 1
    lines = some(history, of, request.asked, answer, around=answer.t)
    name = f"request {request.n}" + (" (which was cancelled)" if request.cancelled else "")
    if count > most:
        cause = f"{name} gave {counted(count, 'tokens')} where the model alone gives {most}"
        return [Violation("duplicate", cause, lines)]
    if answer.text("digest") != alone.prefixes[count]:
        cause = f"{name} gave other tokens than the model alone, among its first {count}"
        return [Violation("wrong-data", cause, lines)]
    finish = answer.text("finish")
    if not request.well or finish == "cancelled":
        return []
    if count < most:
        cause = f"{name} gave {counted(count, 'tokens')} where the model alone gives {most}"
        return [Violation("lost", cause, lines)]
    if finish != alone.finish:
        cause = f"{name} ended by {finish!r} where the model alone ends by {alone.finish!r}"
        return [Violation("wrong-data", cause, lines)]
    return []
