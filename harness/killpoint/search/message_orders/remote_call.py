"""Explores message orders: runs where the target is loaded, in a process of its own."""

from __future__ import annotations

from typing import cast

import msgspec

from killpoint.search.message_orders.protocol_state import ProtocolState
from killpoint.search.message_orders.search import Diverged, Searched, play, search
from killpoint.systems.coordinator.orders import Orders
from killpoint.targets.protocol import Target
from killpoint.targets.waves import HasWaves
from killpoint.verdict import Violation


class SearchCall(msgspec.Struct, frozen=True):
    """Orders to explore, and the invariant to judge."""

    orders: Orders
    invariant: str
    seconds: float


class Explored(msgspec.Struct):
    """Result of an exploration."""

    searched: Searched | None = None
    violation: Violation | None = None
    lines: list[str] = []
    doubt: str = ""
    """Reason why it is no evidence: a written order does not fit, or a finding did not come
    again."""


def answer(target: Target, data: bytes) -> bytes:
    """Carry out a call; both are msgpack."""
    call = msgspec.msgpack.decode(data, type=SearchCall)
    return msgspec.msgpack.encode(carry_out(cast("HasWaves", target), call))


def carry_out(target: HasWaves, call: SearchCall) -> Explored:
    """Search, and play what was found once more on fresh parties; or play what is written down."""
    orders = call.orders
    if orders.moves is not None:
        return _again(target, call, orders.moves)
    searched = search(ProtocolState(target, orders), call.invariant, call.seconds)
    if searched.violation is None:
        return Explored(searched)
    proven = _again(target, call, searched.lines)
    proven.searched = searched
    if proven.violation is None and not proven.doubt:
        proven.doubt = f"{searched.violation.cause}; but the same order, written down, held"
    return proven


def _again(target: HasWaves, call: SearchCall, lines: list[str]) -> Explored:
    try:
        violation = play(ProtocolState(target, call.orders), call.invariant, lines)
    except Diverged as error:
        return Explored(doubt=str(error))
    return Explored(violation=violation, lines=lines)
