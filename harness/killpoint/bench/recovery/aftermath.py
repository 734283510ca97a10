"""The aftermath of a fault on a whole server, in figures: read off the record of one play.

Times are seconds since the fault was done. Every look at the server is a sample: of its health four
a second, of its streams and processes ten a second, so no time here is finer than that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from killpoint.checkers.finding import Inconclusive
from killpoint.systems.server.record import SECOND, Life, Request, Strike

_WINDOW = 2 * SECOND
_WHOLE = 0.7
"""Share of the undisturbed rate of text that counts as whole: no two seconds are alike."""
_UNHEARD = ("error", "torn", "no-answer", "refused", "hang", "open")
_UNWELL = "health"


class Health(msgspec.Struct, frozen=True):
    """Status of the server's health, or its readiness, from a time on."""

    since_s: float
    status: int
    """Status of the HTTP answer; 0: there was none."""


class FrontExit(msgspec.Struct, frozen=True):
    """End of the front: the process that was started."""

    after_s: float
    code: int | None = None
    signal: int | None = None


class Left(msgspec.Struct, frozen=True):
    """Resources that were left once the play looked for the last time."""

    processes: int = 0
    shm_bytes: int = 0
    files: int = 0


class Aftermath(msgspec.Struct, frozen=True, kw_only=True):
    """One fault and its aftermath."""

    fault: str
    part: str
    noticed_s: float | None
    """Seconds until a party outside could have known; None: none could, for as long as it was
    looked."""
    noticed_by: str
    """``health`` that was not 200, ``an error`` to a client, ``a restart``, ``its end``."""
    health: list[Health]
    """Health as the fault was done, and at each change after it."""
    ready: list[Health]
    """The same of readiness, where the server has an address for that."""
    in_flight: dict[str, int]
    """Number of requests by how they ended, of those open as the fault was done."""
    later: dict[str, int]
    """The same of requests that were asked after the fault."""
    stalls_s: list[float]
    """Longest time without a piece, of each stream that was in flight."""
    silence_s: float
    """The longest time, after the fault, in which no stream got a piece."""
    whole_s: float | None
    """Seconds until as much text came as undisturbed (70 % of it, for two seconds); None: it did
    not."""
    end: FrontExit | None
    """None: it lived on."""
    left: Left
    looked_s: float
    """Seconds for which the server was observed, under load."""


def aftermath(of: Life, left: Left) -> Aftermath:
    """Return the aftermath of the first fault of a play.

    Raises:
        Inconclusive: no fault struck, or no client asked anything after it.
    """
    if not of.strikes:
        raise Inconclusive("no fault struck")
    strike = of.strikes[0]
    over = _over(of)
    until = over if of.asked_until is None else min(of.asked_until, over)
    if until <= strike.t:
        raise Inconclusive("nobody asked anything after the fault")
    load = [each for each in of.load() if not each.utility]
    flying = [each for each in load if each.open_at(strike.t)]
    seen = (each for each in _notices(of, strike, load) if strike.t < each[0] <= over)
    noticed = min(seen, default=None)
    return Aftermath(
        fault=strike.fault,
        part=strike.part,
        noticed_s=None if noticed is None else _since(strike, noticed[0]),
        noticed_by="" if noticed is None else noticed[1],
        health=_changes(of.looks, strike, until),
        ready=_changes(of.ready, strike, until),
        in_flight=_ends(flying, over),
        later=_ends((each for each in load if strike.t < each.asked <= over), over),
        stalls_s=[each.gap / SECOND for each in flying if each.stream],
        silence_s=_silence(of, strike, until),
        whole_s=_whole(of, strike, until),
        end=end_of(of, strike.t, over),
        left=left,
        looked_s=_since(strike, until),
    )


def _since(strike: Strike, t: int) -> float:
    return round(max(0, t - strike.t) / SECOND, 3)


def _over(of: Life) -> int:
    """Return when the play stopped the server: what comes later is not the fault's doing."""
    told = of.history.first("told-to-end")
    return of.until if told is None else min(told.t, of.until)


def _ends(requests: Iterable[Request], over: int) -> dict[str, int]:
    ended = (each.end if (each.ended or 0) <= over else "open" for each in requests)
    return dict(Counter(ended))


def _notices(of: Life, strike: Strike, load: list[Request]) -> Iterator[tuple[int, str]]:
    """Yield when a party outside could have known of the fault, and by what sign."""
    if strike.part != "front":
        ended = (each.t for each in of.history.of("part-ended") if each.t > strike.t)
        yield from ((t, "a restart") for t in ended if _lives_again(of, strike, t))
    yield from ((t, _UNWELL) for t, status in of.looks if status != 200)
    failed = (each.ended for each in load if each.end in _UNHEARD and each.ended is not None)
    yield from ((t, "an error") for t in failed)
    if of.front_ended is not None:
        yield of.front_ended.t, "its end"


def _lives_again(of: Life, strike: Strike, ended: int) -> bool:
    return any(t > ended and strike.part in parts for t, parts in of.trees)


def _changes(looks: list[tuple[int, int]], strike: Strike, until: int) -> list[Health]:
    """Return the status as the fault was done, and each change of it after that."""
    told: list[Health] = []
    before = next((status for t, status in reversed(looks) if t <= strike.t), None)
    for t, status in [(strike.t, before), *((t, s) for t, s in looks if strike.t < t <= until)]:
        if status is not None and (not told or told[-1].status != status):
            told.append(Health(_since(strike, t), status))
    return told


def _silence(of: Life, strike: Strike, until: int) -> float:
    longest, since, heard = 0, strike.t, None
    for t, pieces, _ in of.samples:
        if t < strike.t:
            heard = pieces
        elif t <= until:
            if pieces != heard:
                since, heard = t, pieces
            longest = max(longest, t - since)
    return longest / SECOND


def _whole(of: Life, strike: Strike, until: int) -> float | None:
    """Return when the first two seconds began in which text came as it had undisturbed."""
    try:
        enough = _WHOLE * of.undisturbed() * _WINDOW
    except Inconclusive:
        return None
    for t, _ in of.texts:
        within = strike.t <= t and t + _WINDOW <= until
        if within and of.text_between(t, t + _WINDOW) >= enough:
            return _since(strike, t)
    return None


def end_of(of: Life, since: int, over: int | None = None) -> FrontExit | None:
    """Return how the front ended, if it did so by ``over``; times in ns."""
    ended = of.front_ended
    if ended is None or (over is not None and ended.t > over):
        return None
    code, by = ended.data.get("code"), ended.data.get("signal")
    return FrontExit(
        round(max(0, ended.t - since) / SECOND, 3),
        code if isinstance(code, int) else None,
        by if isinstance(by, int) else None,
    )
