"""The ring: slot transitions, capacity, and who may unlink the segment (R1, R4, R8)."""

from __future__ import annotations

from collections import Counter

from killpoint.checkers.finding import (
    ACCIDENT,
    Finding,
    Inconclusive,
    deaths,
    evidence,
    hangs,
    ordered_end,
)
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import RingAttach, Scenario
from killpoint.systems.queue.record import got, mismatches, sent, torn
from killpoint.systems.queue.slot_model import Slot
from killpoint.verdict import Violation


def check_r1_slot_states(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """R1: replay every store, in the order of the stores, on the model of a slot."""
    slots: dict[int, Slot] = {}
    stores = sorted(history.of("store"), key=lambda event: event.number("turn"))
    readers = scenario.readers()
    for count, event in enumerate(stores):
        index = event.number("slot")
        slot = slots.setdefault(index, Slot(len(readers)))
        reader = None if event.role == "writer" else readers.index(event.role)
        before = slot.case()
        complaint = slot.store(reader, event.number("flag"), event.number("value"))
        if complaint:
            cause = (
                f"{event.role} moved slot {index} from case {before} to {slot.case()}: {complaint}"
            )
            near = stores[max(0, count - 6) : count + 1]
            violation = Violation("bad-transition", cause, evidence(history, near))
            return Finding([violation], {"transitions": count})
    if not stores:
        raise Inconclusive("no store to a slot's flags was recorded")
    return Finding([], {"transitions": len(stores)})


def check_r4_no_overwrite(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """R4: no more messages are accepted than slots are free, and none is overwritten."""
    found: list[Violation] = []
    dead = deaths(history)
    for message in sent(history):
        if not message.ok or message.ended is None:
            continue
        accepted = sum(
            m.ok and m.ended is not None and m.ended.t <= message.ended.t for m in sent(history)
        )
        for reader in scenario.readers():
            if reader in dead and dead[reader].t <= message.ended.t:
                continue
            taken = sum(call.began.t <= message.ended.t for call in got(history, reader))
            if accepted - taken > scenario.shape.chunks and not found:
                cause = (
                    f"message {message.seq} was accepted with {accepted - taken - 1} messages"
                    f" unread by {reader} in a ring of {scenario.shape.chunks} slots"
                )
                found.append(Violation("bad-transition", cause, evidence(history, [message.ended])))
    for reader in scenario.readers():
        found = found or mismatches(history, reader, tail_may_miss=reader in dead)
    found = found or [
        Violation("wrong-data", f"message {call.seq} was overwritten before {reader} read it")
        for reader, _, call in torn(history, scenario.readers(), scenario.shape.chunk_bytes)
    ]
    messages = sum(call.outcome == "ok" for r in scenario.readers() for call in got(history, r))
    found = found or hangs(history)
    if not found and not messages:
        raise Inconclusive("no message arrived anywhere")
    return Finding(found[:1], {"messages": messages})


def check_r8_unlink(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """R8: only the creator's process removes the name, at most once; bad segments are refused."""
    found: list[Violation] = []
    made: dict[str, Event] = {}
    removed: Counter[str] = Counter()
    for event in history.of("segment"):
        name, pid = event.text("name"), event.number("pid")
        if event.text("act") == "create":
            made[name] = event
            removed[name] = 0
            continue
        removed[name] += 1
        maker = made.get(name, event)
        foreign = maker.number("pid") != pid and not _gone(history, maker, event.t)
        if foreign and not found:
            whose = "a fork's copy of the object" if _is_copy(history, pid) else event.role
            cause = f"{whose} unlinked the segment while its creator lived"
            found.append(Violation("bad-transition", cause, evidence(history, [event])))
        elif removed[name] > 1 and not found:
            cause = f"a segment was unlinked {removed[name]} times"
            found.append(Violation("bad-transition", cause, evidence(history, [event])))
    attaches = [event for event in history.of("end") if event.text("op") == "ring-attach"]
    for event in attaches:
        how = next(step.how for step in scenario.steps if isinstance(step, RingAttach))
        words = {"missing": "that does not exist", "small": "that is too small"}[how]
        accident = ACCIDENT.match(event.text("error"))
        if found:
            break
        if event.text("outcome") == "ok":
            cause = f"attaching to a segment {words}, and looking at it, raised nothing"
            found.append(Violation("no-error", cause, evidence(history, [event])))
        elif event.text("outcome") == "error" and accident:
            cause = (
                f"attaching to a segment {words}, and looking at it, ended in an {accident[1]} of"
                f" the code that looks, which does not name the segment: {event.text('error')}"
            )
            lines = evidence(history, [event])
            found.append(Violation("no-error", cause, lines, level="SHOULD"))
    found = found or hangs(history)
    for reader in scenario.readers():
        found = found or mismatches(history, reader)
    if not found and not made and not attaches:
        raise Inconclusive("no segment was made, and none was attached to")
    return Finding(found[:1], {"names": len(made)})


def _gone(history: History, maker: Event, when: int) -> bool:
    """Return whether the process that made a segment was dead by then, or being ended."""
    ordered = ordered_end(history, maker.role)
    if ordered is not None and ordered <= when:
        return True
    return any(
        event.t <= when and event.number("pid") == maker.number("pid")
        for event in history.of("exit")
    )


def _is_copy(history: History, pid: int) -> bool:
    return any(event.number("pid") == pid for event in history.of("forked-copy", "copy-ended"))
