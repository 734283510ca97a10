"""Forms of what known bugs do in whole engines: for a terminal, as JSON, as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from killpoint.bench.recovery.reach import BY_FINDING, Reached
from killpoint.bench.recovery.run import Server
from killpoint.bench.recovery.show import counted, ended, health


def text(found: Sequence[Reached]) -> str:
    """Return the report: one paragraph for each play."""
    lines: list[str] = []
    for each in found:
        lines += [f"{each.finding} on {each.server}: {BY_FINDING[each.finding].said}"]
        lines += [f"  {line}" for line in told(each)]
    clients = sum(each.reaches for each in found)
    return "\n".join([*lines, f"{clients} of {len(found)} reach a client"])


def json(found: Sequence[Reached], servers: Sequence[Server]) -> str:
    """Everything that was measured."""
    whole = {"schema": 1, "servers": list(servers), "reached": list(found)}
    return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode() + "\n"


def markdown(found: Sequence[Reached], servers: Sequence[Server], command: str) -> str:
    """The page that docs/ has."""
    return "\n".join([*_page(found, servers, command), ""])


def told(each: Reached) -> Iterator[str]:
    """Yield a line for each fact that a play shows."""
    if each.why:
        yield each.why
    if each.after is not None:
        first = f"; the first after {each.first_s:.1f} s" if each.first_s is not None else ""
        flying, later = counted(each.after.in_flight), counted(each.after.later)
        yield f"in flight: {flying}; later: {later}{first}"
        yield f"health: {health(each.after.health)}"
    for call in each.calls:
        why = f" ({call.why})" if call.why else ""
        yield f"a call of all workers ended after {call.after_s:.1f} s: {call.end}{why}"
    yield f"the server: {ended(each.end)}"
    if each.end is not None or each.left:
        kept = f"{each.shm_bytes / (1 << 20):.1f} MiB of shared memory, {each.files} files"
        yield f"at the end: {', '.join(each.left) or 'no process'}, {kept}"


def _page(found: Sequence[Reached], servers: Sequence[Server], command: str) -> Iterator[str]:
    yield "# How far known bugs reach in a whole engine"
    yield ""
    yield "<!-- not run: it takes ten minutes; a test plays two of them on a small server -->"
    yield "```console"
    yield f"$ {command}"
    yield "```"
    yield ""
    yield (
        "The bugs of [the registry](findings.md) were found in parts of an engine, each by itself."
        " Here the whole engine is started, twelve clients ask it again and again, and what sets"
        " the bug off is done, if anything does. Seconds are those since then."
        " *Reaches a client*: a request ended otherwise than with its whole answer, or a call that"
        " the workers ought to answer was not answered. That a request ends with an error where a"
        " process was killed is no bug by itself: what the bug adds is what stays, or who waits."
    )
    yield ""
    yield " ".join(f"`{server.spec}` is {server.name} {server.version}." for server in servers)
    yield ""
    yield f"{sum(each.reaches for each in found)} of {len(found)} reach a client."
    for each in found:
        yes = "reaches a client" if each.reaches else "does not reach a client in this play"
        yield from ("", f"## `{each.finding}` {yes}", "")
        yield f"`{each.server}`: {BY_FINDING[each.finding].said}."
        yield ""
        yield from (f"- {line}" for line in told(each))
