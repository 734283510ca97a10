"""Forms of a score: for a terminal, as JSON, as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from killpoint.bench.hangs.kinds import BY_NAME, HEALTHY
from killpoint.bench.hangs.run import Looked, Score
from killpoint.bench.statistics import quantile


def text(run: Score) -> str:
    """Kind by kind, the servers side by side, and how often it was right in all."""
    lines = [f"inspect: {', '.join(server.spec for server in run.servers)}"]
    lines.append(f"{run.machine.cores} cores, {run.machine.processor}; {run.seconds:.0f} s")
    for kind in run.kinds:
        lines.append(f"{kind}: {BY_NAME[kind].said}")
        for server in run.servers:
            lines.append(f"  {server.spec}: {_told(run, kind, server.spec)}")
    lines += ["", _sum(run), _healthy(run)]
    lines += [f"wrong: {x.kind} on {x.server}: {x.says}: {x.words}" for x in _wrong(run)]
    return "\n".join(lines)


def json(run: Score) -> str:
    """Everything that was looked at."""
    return msgspec.json.format(msgspec.json.encode(run), indent=1).decode() + "\n"


def markdown(run: Score, command: str) -> str:
    """The page that docs/ has."""
    return "\n".join([*_page(run, command), ""])


def _hangs(run: Score) -> list[Looked]:
    return [x for x in run.looked if x.kind != HEALTHY]


def _wrong(run: Score) -> list[Looked]:
    """Looks that were not right, one of each kind and each word."""
    of: dict[tuple[str, str, str], Looked] = {}
    for x in run.looked:
        if x.says == "wrong" or (x.kind != HEALTHY and x.says != "right"):
            of.setdefault((x.server, x.kind, x.says), x)
    return list(of.values())


def _told(run: Score, kind: str, server: str) -> str:
    looks = run.of(kind, server)
    if not looks:
        return _missing(run, kind, server)
    counts = Counter(x.says for x in looks)
    rest = [f"{counts[s]} {s.replace('-', ' ')}" for s in ("wrong", "cannot-tell", "clear")
            if counts[s]]  # fmt: skip
    told = f"{counts['right']} of {len(looks)}" + (f" ({', '.join(rest)})" if rest else "")
    survived = sum((x.kind, x.server) == (kind, server) and x.lacks for x in run.missed)
    vain = f"; {survived} more did not hang" if survived else ""
    return f"{told}, {_seconds(looks)}{vain}"


def _missing(run: Score, kind: str, server: str) -> str:
    why = [x.why for x in run.missed if (x.kind, x.server) == (kind, server)]
    return f"not looked at: {why[0]}" if why else "not looked at"


def _seconds(looks: Sequence[Looked]) -> str:
    times = [x.seconds for x in looks]
    return f"{quantile(times, 0.5):.1f} s, at most {max(times):.1f} s"


def _sum(run: Score) -> str:
    hangs = _hangs(run)
    if not hangs:
        return "no hang was looked at"
    right = sum(x.says == "right" for x in hangs)
    share = 100 * right / len(hangs)
    return (
        f"{right} of {len(hangs)} hangs ({share:.1f} %): the process to blame is named first;"
        f" {_seconds(hangs)}"
    )


def _healthy(run: Score) -> str:
    looks = run.of(HEALTHY)
    if not looks:
        return "no healthy tree was looked at"
    counts = Counter(x.says for x in looks)
    return (
        f"{len(looks)} looks at healthy trees under load: {counts['wrong']} blamed somebody,"
        f" {counts['clear']} all clear, {counts['cannot-tell']} cannot tell; {_seconds(looks)}"
    )


def _page(run: Score, command: str) -> Iterator[str]:
    yield "# How often `killpoint inspect` names the right process"
    yield ""
    yield "<!-- not run: it takes hours; a test scores two kinds on a small server -->"
    yield "```console"
    yield f"$ {command}"
    yield "```"
    yield ""
    yield (
        "Whole servers are started, twelve clients ask them again and again, and one hang is put"
        " into each. Once no client has got a piece of an answer for a second, `killpoint inspect`"
        " looks once. It is right if its first line names the process that hangs. Another process,"
        " `cannot tell` and `all clear` all count as wrong. Seconds are those of the look: the"
        " median, and the longest."
    )
    yield ""
    yield f"**{_sum(run)}.** {_healthy(run)}."
    yield ""
    yield f"{run.machine.cores} cores, {run.machine.processor}. " + " ".join(
        f"`{server.spec}` is {server.name} {server.version}." for server in run.servers
    )
    yield ""
    yield f"| hang | {' | '.join(f'`{server.spec}`' for server in run.servers)} |"
    yield "| --- |" + " --- |" * len(run.servers)
    for kind in run.kinds:
        cells = (_told(run, kind, server.spec).replace("|", "/") for server in run.servers)
        yield f"| {BY_NAME[kind].said} | {' | '.join(cells)} |"
    wrong = _wrong(run)
    if wrong:
        yield ""
        yield "Not right, one of each:"
        yield ""
        for x in wrong:
            yield f"- {x.kind}, `{x.server}`: {x.says.replace('-', ' ')}: {x.words or 'all clear'}"
