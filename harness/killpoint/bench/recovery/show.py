"""Forms of a run of ``killpoint bench recovery``: for a terminal, as JSON, as a truth table."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

import msgspec

from killpoint.bench.recovery.aftermath import Aftermath, FrontExit, Health
from killpoint.bench.recovery.faults import BY_NAME
from killpoint.bench.recovery.run import Measured, Recovery, Server
from killpoint.bench.statistics import quantile

_ORDER = ("whole", "error", "torn", "no-answer", "refused", "truncated", "differs", "hang", "open")
_WORDS = {
    "torn": "torn",
    "no-answer": "no answer",
    "refused": "refused",
    "truncated": "cut short as if whole",
    "differs": "wrong tokens",
    "hang": "hang",
    "open": "open to the end",
}


def text(run: Recovery) -> str:
    """The figures, fault by fault, the servers side by side."""
    lines = [f"recovery: {', '.join(server.spec for server in run.servers)}"]
    lines.append(f"{run.machine.cores} cores, {run.machine.processor}; seconds since the fault")
    for fault in run.faults():
        lines += ["", f"{fault}: {BY_NAME[fault].said}"]
        lines += [
            f"  {server.spec}: {_figures(run.of(server.spec, fault))}" for server in run.servers
        ]
    return "\n".join(lines)


def json(run: Recovery) -> str:
    """Everything that was measured."""
    return msgspec.json.format(msgspec.json.encode(run), indent=1).decode() + "\n"


def markdown(run: Recovery, command: str) -> str:
    """The truth table: what each server's health, progress, end and clients said of each fault."""
    return "\n".join([*_head(run, command), *_tables(run), ""])


def _figures(rounds: Sequence[Measured]) -> str:
    after = [each.after for each in rounds if each.after is not None]
    if not after:
        return rounds[0].why if rounds else "not measured"
    stalls = [stall for each in after for stall in each.stalls_s]
    ends = sum((Counter(each.in_flight) for each in after), Counter[str]())
    parts = [
        f"noticed {_middle([each.noticed_s for each in after])}",
        f"of {sum(ends.values())} in flight {counted(ends)}",
        f"stall p50 {quantile(stalls, 0.5):.1f} p99 {quantile(stalls, 0.99):.1f}" if stalls else "",
        f"as before {_middle([each.whole_s for each in after])}",
        f"left {_left(after[-1])}",
    ]
    return ", ".join(part for part in parts if part)


def _middle(times: Sequence[float | None]) -> str:
    """The median of those that there are, and how many there are not."""
    known = [each for each in times if each is not None]
    if not known:
        return "never"
    missing = len(times) - len(known)
    return f"{median(known):.1f} s" + (f" ({missing} of {len(times)} never)" if missing else "")


def counted(ends: Counter[str] | dict[str, int]) -> str:
    """Return the number of requests by how they ended, in words."""
    told = [f"{ends[end]} {_WORDS.get(end, end)}" for end in _ORDER if ends.get(end)]
    return ", ".join(told) or "none"


def _left(after: Aftermath) -> str:
    left = after.left
    parts = [
        f"{left.processes} process{'es' * (left.processes > 1)}" if left.processes else "",
        f"{left.shm_bytes / (1 << 20):.1f} MiB of shared memory" if left.shm_bytes else "",
        f"{left.files} files" if left.files else "",
    ]
    return ", ".join(part for part in parts if part) or "nothing"


def _head(run: Recovery, command: str) -> Iterator[str]:
    yield "# The truth table: what a server says of a fault, and what is so"
    yield ""
    yield "<!-- not run: it takes an hour; a test makes a table of two faults of a small server -->"
    yield "```console"
    yield f"$ {command}"
    yield "```"
    yield ""
    yield (
        "Twelve clients ask each server again and again, half of them for streams, and one fault is"
        " done in the midst of their answers. Times are seconds since the fault. *Health* is what"
        " its health address said, from when on (no answer: nobody was there to give one);"
        " *progress*:"
        " the longest time in which no stream got a piece, and when as much text came again as"
        " undisturbed; *exit*: how the process that was started ended; *clients*: how the requests"
        " ended that were in flight, and those that were asked later."
    )
    yield ""
    yield f"{run.machine.cores} cores, {run.machine.processor}. " + " ".join(
        f"`{server.spec}` is {server.name} {server.version}." for server in run.servers
    )


def _tables(run: Recovery) -> Iterator[str]:
    for fault in run.faults():
        yield from ("", f"## {BY_NAME[fault].said[0].upper()}{BY_NAME[fault].said[1:]}", "")
        yield "| server | health | progress | exit | in flight | asked later |"
        yield "| --- | --- | --- | --- | --- | --- |"
        for server in run.servers:
            for measured in run.of(server.spec, fault):
                yield f"| `{server.spec}` | {' | '.join(_cells(server, measured))} |"


def _cells(server: Server, measured: Measured) -> list[str]:
    del server
    after = measured.after
    if after is None:
        return [measured.why.replace("|", "/"), "", "", "", ""]
    going = "goes on" if after.end is None else "none once it has ended"
    silent = f"none for {after.silence_s:.1f} s" if after.silence_s >= 1 else going
    whole = "" if after.whole_s is None else f"; as before after {after.whole_s:.1f} s"
    if after.whole_s is None and after.end is None:
        whole = f"; not as before within {after.looked_s:.0f} s"
    ready = f"; ready: {health(after.ready)}" if after.ready else ""
    return [
        health(after.health) + ready,
        silent + whole,
        ended(after.end),
        counted(after.in_flight),
        counted(after.later),
    ]


def health(told: Sequence[Health]) -> str:
    """Return each status of the health in words, and from when on it held."""
    words = [f"{each.status or 'no answer'}" for each in told]
    if len(words) == 1:
        return f"{words[0]} throughout"
    later = [
        f"{word} after {each.since_s:.1f} s" for word, each in zip(words[1:], told[1:], strict=True)
    ]
    return ", ".join([words[0], *later]) if words else "not asked"


def ended(end: FrontExit | None) -> str:
    """Return how the front ended, in words."""
    if end is None:
        return "lives"
    if end.signal is not None:
        return f"{signal.Signals(end.signal).name} after {end.after_s:.1f} s"
    return f"status {end.code} after {end.after_s:.1f} s"
