"""Messages of a play: which event sent what, and which event shows that it arrived."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from killpoint.history.event import Event

ENDS = {
    "send": "sent",
    "send-to": "sent-to",
    "pipe-send": "pipe-sent",
    "blocks-send": "blocks-sent",
}
"""Kind of the event that ends a sending operation, by the kind that begins it."""


class Arrow(msgspec.Struct, array_like=True, frozen=True):
    """A message on its way; places are indexes into the play's events."""

    source: int
    to: int
    """-1: nothing shows that it arrived anywhere."""
    label: str
    odd: str = ""
    """Fault of the message, in a word: ``altered``, ``again``; empty: it has none."""


def arrows(events: Sequence[Event]) -> list[Arrow]:
    """Return every message that the record pairs with an arrival, and those that never arrived."""
    post = _Post()
    for index, event in enumerate(events):
        post.take(index, event)
    return sorted([*post.arrived, *post.lost()], key=lambda arrow: (arrow.source, arrow.to))


class _Post:
    """Takes the events of a play in order, and pairs them."""

    def __init__(self) -> None:
        self.arrived: list[Arrow] = []
        self._sent: dict[tuple[str, object], tuple[int, Event]] = {}
        self._by_digest: dict[tuple[str, str], list[int]] = {}
        self._accepted: dict[int, str] = {}
        """Label of each message that its sender was told is on its way."""
        self._open: dict[str, int] = {}
        """The send that each role is in."""
        self._seen: set[tuple[int, str]] = set()

    def take(self, index: int, event: Event) -> None:
        """Pair one event with what came before it."""
        kind, data = event.kind, event.data
        if kind in ("send", "send-to", "broadcast", "gather") and "seq" in data:
            self._keep("message", data["seq"], index, event)
        elif kind == "pipe-send":
            self._by_digest.setdefault(("pipe", event.text("digest")), []).append(index)
        elif kind == "blocks-send":
            self._keep("blocks", data.get("request"), index, event)
        elif kind in ("call", "submit"):
            self._keep("call", data.get("n"), index, event)
        elif kind == "served":
            self._keep(f"served by {event.role}", data.get("call"), index, event)
        if kind in ENDS:
            self._open[event.role] = index
        elif kind in ENDS.values():
            self._returned(event)
        elif data.get("outcome", "ok") == "ok" or kind == "gathered":
            self._arrive(index, event)

    def lost(self) -> Iterable[Arrow]:
        """Return the messages that were accepted, and of which nothing shows an arrival."""
        got = {arrow.source for arrow in self.arrived}
        return (Arrow(at, -1, label) for at, label in self._accepted.items() if at not in got)

    def _keep(self, what: str, number: object, index: int, event: Event) -> None:
        self._sent[what, number] = index, event

    def _returned(self, event: Event) -> None:
        begun = self._open.pop(event.role, None)
        if begun is None or event.text("outcome") != "ok":
            return
        self._accepted[begun] = event.text("seq") or event.text("request")
        if digest := event.text("digest"):  # of the ring: what the fill wrote
            self._by_digest.setdefault(("ring", digest), []).append(begun)

    def _arrive(self, index: int, event: Event) -> None:
        kind, data = event.kind, event.data
        if kind in ("got", "got-from", "broadcast-done"):
            if "seq" in data:
                self._message(index, event, data["seq"], event.text("digest"))
            elif kind == "got":
                self._digest(index, event, "ring", keep=True)
        elif kind == "gathered":
            found = cast("list[object]", data.get("seqs") or [])
            digests = cast("list[object]", data.get("digests") or [])
            for seq, digest in zip(found, digests, strict=False):
                self._message(index, event, seq, str(digest))
        elif kind == "pipe-got":
            self._digest(index, event, "pipe", keep=False)
        elif kind == "blocks-got":
            self._pair("blocks", data.get("request"), index, event)
        elif kind == "serving":
            self._pair("call", data.get("call"), index, event)
        elif kind in ("call-done", "result-done"):
            self._replies(index, event)

    def _message(self, index: int, event: Event, seq: object, digest: str) -> None:
        kept = self._sent.get(("message", seq))
        if kept is None or kept[1].role == event.role:
            return
        meant = kept[1].text("digest")
        odd = "altered" if meant and digest and meant != digest else ""
        if (kept[0], event.role) in self._seen:
            odd = odd or "again"
        self._seen.add((kept[0], event.role))
        self.arrived.append(Arrow(kept[0], index, str(seq), odd))

    def _digest(self, index: int, event: Event, what: str, *, keep: bool) -> None:
        """Pair by content: the oldest such message that is on its way."""
        waiting = self._by_digest.get((what, event.text("digest")), [])
        for sent in waiting[:1]:
            self.arrived.append(Arrow(sent, index, self._accepted.get(sent, "")))
            if not keep:
                waiting.remove(sent)

    def _pair(self, what: str, number: object, index: int, event: Event) -> None:
        kept = self._sent.get((what, number))
        if kept is not None and kept[1].role != event.role:
            self.arrived.append(Arrow(kept[0], index, str(number)))

    def _replies(self, index: int, event: Event) -> None:
        for reply in cast("list[list[object]]", event.data.get("replies") or []):
            rank, call = reply[0], reply[1]
            kept = self._sent.get((f"served by worker-{rank}", call))
            if kept is not None:
                odd = "" if call == event.data.get("n") else f"the reply of call {call}"
                self.arrived.append(Arrow(kept[0], index, str(call), odd))
