"""Judge of dialogues (H7): what each of many clients got is what the control says it could be."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import cast

from killpoint.checkers.finding import Finding, Inconclusive, evidence
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.systems.server.record import SECOND, Life
from killpoint.verdict import Kind, Violation

_HELD_FOR = 5.0
"""Seconds after the last client's end within which the server holds no request any more (E9)."""
_LATER = (429, 503)
"""Statuses that tell a client to come again: no answer, and no wrong one."""
_MAY_BE_GRANTED = ("model", "prompt", "last-prompt")
"""Wrong requests that some servers answer: they have one model, take the interface's default for a
prompt that is not there, or cut one that is too long."""
_WORDS = {
    "json": "a body that is no JSON",
    "model": "a model that there is not",
    "prompt": "a body without a prompt",
    "last-prompt": "a prompt that is too long",
}
_COARSE = 16
"""Characters by which the ends of two stop strings may differ where a token has several: either may
be the one that is found."""


@dataclass
class Spoken:
    """Answer of the control to one prompt with one limit."""

    text: str
    finish: str
    used: int | None
    read: int | None

    @property
    def coarse(self) -> bool:
        """True if a token has more than one character at times."""
        return self.used is None or len(self.text) > self.used


@dataclass
class Exchanged:
    """Request of a client in a dialogue, and what became of it."""

    asked: Event
    ended: Event | None = None
    said: list[tuple[int, int]] = field(default_factory=list["tuple[int, int]"])

    @property
    def end(self) -> str:
        """Kind of its end; ``open`` if the play was over first."""
        return self.ended.text("end") if self.ended is not None else "open"

    @property
    def status(self) -> int:
        """Status of its answer; 0: none."""
        return self.ended.number("status", 0) if self.ended is not None else 0

    @property
    def stops(self) -> list[str]:
        """Stop strings that it asked for."""
        return cast("list[str]", self.asked.data.get("stops") or [])

    def words(self) -> str:
        """Return what it is, for people."""
        how = "a stream" if self.asked.data.get("stream") else "a whole answer"
        prompts = f" to {len(self.said)} prompts" if len(self.said) > 1 else ""
        stops = " with stop strings" if self.stops else ""
        return how + prompts + stops


def check_h7_dialogues(of: Life, ledger: Ledger) -> Finding:
    """H7: each exchange has an end that the control allows, and nobody's leaves what is held."""
    del ledger
    history = of.history
    spoken, exchanges = _spoken(history), _exchanges(history)
    deserted = [event for event in history.of("deserted") if _is_gone(event)]
    if not (exchanges or deserted):
        raise Inconclusive("nobody conversed with the server")
    marked = history.first("marked")
    ends_marked = marked is not None and marked.data.get("yes") is True
    completions = 0
    for each in exchanges:
        wrong = _wrong_end(each) or _wrong_answer(each, spoken, marked=ends_marked)
        if wrong is not None:
            kind, cause = wrong
            shown = [each.asked, *([each.ended] if each.ended else [])]
            return Finding([Violation(kind, cause, evidence(history, shown))])
        completions += len(each.said) if _judged(each) else 0
    held = _held(history)
    if held is not None:
        return Finding([held])
    if exchanges and not completions:
        raise Inconclusive("no client of the dialogue was answered")
    counts = {"exchanges": len(exchanges), "completions": completions, "deserted": len(deserted)}
    return Finding([], counts | {"overlaps": _overlaps(exchanges)})


def _is_gone(deserted: Event) -> bool:
    """Return whether a client has left much of its request, or was refused all of it."""
    refused = 400 <= deserted.number("status", 0) < 500
    return refused if deserted.text("how") == "last-prompt" else deserted.text("end") == "left"


def _spoken(history: History) -> dict[tuple[int, int], Spoken]:
    found: dict[tuple[int, int], Spoken] = {}
    for event in history.of("spoken"):
        used, read = event.data.get("used"), event.data.get("read")
        found[event.number("prompt"), event.number("tokens")] = Spoken(
            event.text("text"),
            event.text("finish"),
            used if isinstance(used, int) else None,
            read if isinstance(read, int) else None,
        )
    return found


def _exchanges(history: History) -> list[Exchanged]:
    found: dict[int, Exchanged] = {}
    for event in history.of("exchange", "exchange-end"):
        number = event.number("n")
        if event.kind == "exchange":
            said = cast("list[list[int]]", event.data.get("said") or [])
            found[number] = Exchanged(event, said=[(prompt, tokens) for prompt, tokens in said])
        elif number in found:
            found[number].ended = event
    return list(found.values())


def _overlaps(exchanges: list[Exchanged]) -> int:
    ended = [each for each in exchanges if each.ended is not None]
    spans = [(each.asked.t, each.ended.t) for each in ended if each.ended is not None]
    return sum(a < d and c < b for (a, b), (c, d) in combinations(spans, 2))


def _judged(each: Exchanged) -> bool:
    """Return whether its answer is to be compared with the control."""
    return each.end == "whole" and not each.asked.text("leaves") and not each.asked.text("wrong")


def _wrong_end(each: Exchanged) -> tuple[Kind, str] | None:
    """Return what is wrong with the way in which it ended, if anything is."""
    wrong, why = each.asked.text("wrong"), each.ended.text("why") if each.ended else ""
    if each.end == "hang":
        what = f"a request with {_WORDS[wrong]}" if wrong else each.words()
        return "hang", f"beside other clients, {what} had not ended when its client gave up"
    if each.asked.text("leaves") or each.end in ("open", "closed"):
        return None
    if wrong:
        refused = 400 <= each.status < 500 or each.status in _LATER
        granted = each.status == 200 and wrong in _MAY_BE_GRANTED
        if refused or granted:
            return None
        return "no-error", f"a request with {_WORDS[wrong]} got status {each.status}, not 4xx"
    if each.end in ("torn", "no-answer") and each.asked.text("pace") == "half-closes":
        return None  # a server may take half a connection for none
    if each.end == "error" and each.status in _LATER:
        return None
    if each.end != "whole":
        return "lost", f"beside other clients, {each.words()} ended with {each.end}: {why}"
    return None


def _wrong_answer(
    each: Exchanged, spoken: dict[tuple[int, int], Spoken], *, marked: bool
) -> tuple[Kind, str] | None:
    """Return what is wrong with an answer that passes for whole, if anything is."""
    if not _judged(each) or each.ended is None:
        return None
    choices = cast("dict[str, list[object]]", each.ended.data.get("choices") or {})
    if sorted(map(int, choices)) != list(range(len(each.said))):
        what = f"{len(choices)} completions of {len(each.said)}"
        return "lost", f"status 200, and {each.words()} has {what}"
    for index, pair in enumerate(each.said):
        text, finish, after = choices[str(index)]
        if after:
            return "duplicate", f"{each.words()}: more of a completion came after its finish"
        found = _wrong_completion(each, spoken[pair], str(text), str(finish))
        if found is not None:
            return found
    one_end = each.ended.number("done", 0) == 1 and not each.ended.data.get("after")
    if each.ended.data.get("streamed") and marked and not one_end:
        return "wrong-data", "a stream has not one end that is its last event"
    return _wrong_usage(each, [spoken[pair] for pair in each.said])


def _wrong_completion(
    each: Exchanged, control: Spoken, text: str, finish: str
) -> tuple[Kind, str] | None:
    cuts = _cuts(control, each.stops)
    if text not in (cuts or [control.text]):
        return _other_text(each, control, cuts, text)
    expected = "stop" if cuts else control.finish
    if finish != expected:
        where = "at a stop string" if cuts else "where it does undisturbed"
        cause = f"{each.words()}: a completion ends {where}, and its finish_reason is"
        return "wrong-data", f"{cause} {finish!r}, not {expected!r}"
    return None


def _other_text(each: Exchanged, control: Spoken, cuts: list[str], text: str) -> tuple[Kind, str]:
    if cuts and len(text) > len(cuts[0]) and control.text.startswith(text):
        return "wrong-data", f"{each.words()}: a completion goes on past its stop string"
    if (cuts or [control.text])[0].startswith(text):
        return "lost", f"{each.words()}: a completion with status 200 is cut short"
    return "wrong-data", f"{each.words()}: a completion has other text than undisturbed"


def _cuts(control: Spoken, stops: list[str]) -> list[str]:
    """Return the texts before the stop strings that are complete first; none: there is no stop."""
    ends = [(at + len(stop), at) for stop in stops if (at := control.text.find(stop)) >= 0]
    if not ends:
        return []
    last = min(ends)[0] + (_COARSE if control.coarse else 0)
    return [control.text[:at] for end, at in sorted(ends) if end <= last]


def _wrong_usage(each: Exchanged, controls: list[Spoken]) -> tuple[Kind, str] | None:
    assert each.ended is not None
    used = cast("list[int | None]", each.ended.data.get("used") or [None, None, None])
    read, wrote, total = used
    if read is None or wrote is None:
        return None
    if all(control.read is not None for control in controls):
        expected = sum(control.read or 0 for control in controls)
        if read != expected:
            cause = f"{each.words()}: its usage has {read} prompt tokens, not {expected}"
            return "wrong-data", cause
    if all(control.used is not None for control in controls):
        most = sum(control.used or 0 for control in controls)
        if wrote > most or (wrote < most and not each.stops):
            cause = f"{each.words()}: its usage has {wrote} completion tokens, not {most}"
            return "wrong-data", cause
    if total is not None and total != read + wrote:
        return "wrong-data", f"{each.words()}: the total of its usage is not its sum"
    return None


def _held(history: History) -> Violation | None:
    """Return the leak of requests that the server holds though no client waits for any.

    The counts that are recorded beside may be older than they look, since some servers renew them
    only while they compute: two that differ show that a count of the second kind was made late.
    """
    for settled in history.of("settled"):
        held, took = settled.data.get("open"), settled.data.get("s")
        if not isinstance(held, int | float) or not isinstance(took, int | float):
            continue
        since = settled.t - int(took * SECOND)
        late = since + int(_HELD_FOR * SECOND) + history.allowance(since, settled.t)
        if settled.t <= late:
            continue
        counted = _counted(history, late, settled.t)
        if held > 0 or len({event.data["open"] for event in counted}) > 1:
            cause = "5 s after the last client had its answer, its refusal or had hung up, the"
            cause += " server's own metrics still count requests"
            last = [*history.of("exchange-end", "deserted")]
            shown = [event for event in last if event.t <= settled.t][-1:]
            shown += [*counted[:1], *counted[1:][-1:], settled]
            return Violation("leak", cause, evidence(history, shown))
    return None


def _counted(history: History, since: int, until: int) -> list[Event]:
    """Return the looks at the server's metrics in this time that count more than one request.

    One may be the short request by which the play learns whether others have a place.
    """
    found: list[Event] = []
    for event in history.of("gauge"):
        number, took = event.data.get("open"), event.data.get("s")
        if isinstance(number, int | float) and isinstance(took, int | float) and number > 1:
            asked = event.t - int(took * SECOND)
            found += [event] if since < asked and event.t <= until else []
    return found
