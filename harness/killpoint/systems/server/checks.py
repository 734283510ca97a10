"""Judges of whole servers, by invariant id: what clients, a supervisor and strangers saw."""

from __future__ import annotations

import functools
import signal
import statistics
from collections.abc import Callable

from killpoint.checkers import exposure
from killpoint.checkers.base import Checks
from killpoint.checkers.finding import (
    Checker,
    Finding,
    Inconclusive,
    JudgedElsewhere,
    Lacking,
    evidence,
    hangs,
)
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.server.histories import check_h7_dialogues
from killpoint.systems.server.program import GONE_WITHIN, UNSTATED_DRAIN
from killpoint.systems.server.record import (
    SECOND,
    Life,
    Request,
    answers,
    counted_ends,
    life,
    lines,
    listed,
)
from killpoint.systems.server.replicas import check_e3_survives_a_replica
from killpoint.verdict import Violation

_ARRIVES = 1.0
"""Seconds after the end of the drain within which the error of a failed request arrives (E6)."""
_LIES_FOR = 15.0
"""Seconds for which health may say something else than what is so (E4)."""
_BACK_WITHIN = 5.0
"""Seconds after a client hung up within which its place is free again (E9)."""
_NEW = 1.0
"""Seconds after SIGTERM from which on a request is new without doubt, for driver and server
alike."""
_GOES_ON = 2.0
"""Seconds without a piece of any stream, with requests open, that count as no progress."""
_TOLD_NO = (503,)


def check_e1_every_request_ends(of: Life, ledger: Ledger) -> Finding:
    """E1: each request ends, with tokens or with an error that names the cause."""
    del ledger
    asked = [each for each in of.requests if each.end != "open"]
    if not asked:
        raise Inconclusive("nobody asked anything")
    hung = [each for each in asked if each.end == "hang"]
    if hung:
        waited = min((each.ended or each.asked) - each.asked for each in hung) / SECOND
        cause = f"{len(hung)} of {len(asked)} requests had not ended when their clients gave up"
        cause += f", after {waited:.0f} s"
        if all(each.utility for each in hung):
            cause += ", none of them for tokens: utility calls"
        cause += f"; {_what_was_done(of)}{_stood(of)}"
        return Finding([Violation("hang", cause, lines(of, *answers(of, hung)))])
    mute = [each for each in asked if each.end == "error" and each.why == str(each.status)]
    if mute:
        cause = f"an error without a word of its cause: status {mute[0].status} and an empty body"
        return Finding([Violation("no-error", cause, lines(of, *answers(of, mute)))])
    return Finding([], {"requests": len(asked)})


def check_e2_tokens(of: Life, ledger: Ledger) -> Finding:
    """E2: a whole answer has the tokens that the same request had undisturbed."""
    del ledger
    if not any(each.control and each.end == "whole" for each in of.requests):
        raise Inconclusive("there was no control: nobody was answered undisturbed")
    other = [each for each in of.load() if each.end == "differs"]
    if other:
        cause = "a request was answered with status 200 and other tokens than undisturbed"
        cause += f"; {_what_was_done(of)}"
        return Finding([Violation("wrong-data", cause, lines(of, *answers(of, other)))])
    whole = [each for each in of.load() if each.end == "whole"]
    struck = [each.t for each in of.strikes if each.fault in ("kill", "stop")]
    through = any(each.open_at(t) for each in whole for t in struck)
    return Finding([], {"answers": len(whole), "through a fault": int(through)})


def check_e4_health(of: Life, ledger: Ledger) -> Finding:
    """E4: health says 200 for at most 15 s while nothing is served, and 200 while it is."""
    del ledger
    bound = int(_LIES_FOR * SECOND) + 2 * _longest_pause(of)
    for served in (False, True):
        began: int | None = None
        for t, status in of.looks:
            lies = (status == 200) != served and (_served(of, t) if served else _stuck(of, t))
            began = (began or t) if lies else None
            if began is not None and t - began > bound + of.history.allowance(began, t):
                return Finding([_lie(of, served=served, since=began, t=t)])
    stops, deaths = (sum(s.fault == fault for s in of.strikes) for fault in ("stop", "kill"))
    return Finding([], {"looks": len(of.looks), "stops": stops, "deaths": deaths})


def check_e5_cut_short(of: Life, ledger: Ledger) -> Finding:
    """E5: an answer that is cut short ends with an error, and does not pass for whole."""
    del ledger
    ended = [each for each in of.load() if each.ended is not None]
    if not ended:
        doubt = "no request under load has ended"
        raise JudgedElsewhere(doubt) if of.load() else Inconclusive(doubt)
    cut = [each for each in ended if each.end == "truncated"]
    if cut:
        how = sorted({each.why for each in cut})[0]
        cause = f"{len(cut)} of {len(ended)} answers were cut short and pass for whole: {how}"
        cause += f"; {_what_was_done(of)}"
        return Finding([Violation("lost", cause, lines(of, *answers(of, cut)))])
    return Finding([], {"answers": len(ended)})


def check_e6_ends_at_sigterm(of: Life, ledger: Ledger) -> Finding:
    """E6: after SIGTERM or SIGINT requests end within the drain, new ones fail, the tree exits."""
    del ledger
    told = of.first("sigterm", "sigint")
    drain = UNSTATED_DRAIN if of.drain is None else of.drain
    stated = "states none: 30 s" if of.drain is None else f"is {drain:g} s"
    limit = told.t + int((drain + _ARRIVES * of.slow) * SECOND)
    limit += of.history.allowance(told.t, of.until)
    flying = [each for each in of.load() if each.open_at(told.t)]
    waiting = [each for each in flying if each.end in ("hang", "open")]
    late = [e for e in flying if (e.ended or of.until) > limit]
    bound = limit + int(GONE_WITHIN * of.slow * SECOND)
    left = of.alive_at(bound) if of.until >= bound else []
    problems: list[str] = []
    if late:
        problems.append(
            f"{len(late)} of {len(flying)} requests in flight had neither an answer nor an error"
            f" within the drain (which {stated})"
        )
    if left:
        problems.append(f"10 s after the drain {listed(left)} still lived{_stood(of)}")
    if problems:
        cause = f"after {_signal(told.fault)}, {'; '.join(problems)}"
        return Finding([Violation("hang", cause, lines(of, *answers(of, late)))])
    if waiting or (of.until < bound and of.alive_at(of.until)):
        raise Inconclusive(_too_slow(of, "what was to end"))
    taken = [e for e in of.load() if e.asked > told.t + int(_NEW * SECOND) and _was_taken(e)]
    if taken:
        cause = f"a request that came after {_signal(told.fault)} got {taken[0].end}"
        cause += f" ({taken[0].why or taken[0].status}), neither 503 nor no connection"
        return Finding([Violation("no-error", cause, lines(of, *answers(of, taken)))])
    return Finding([], {"signals": 1, "in flight": len(flying)})


def check_e7_exit_status(of: Life, ledger: Ledger) -> Finding:
    """E7: the front's status is not 0 if a part's death ended it; 0 or the signal's if orderly."""
    del ledger
    ended = of.front_ended
    if ended is None:
        if of.gone is None and of.strikes and of.strikes[-1].fault in ("sigterm", "sigint"):
            raise JudgedElsewhere("the front has not ended: E6 judges that")
        back = of.history.first("alive")
        if back is not None and back.data.get("yes") is False and not of.history.first("ready"):
            doubt = f"{_what_was_done(of)} as the server started, and the front has neither ended"
            raise Inconclusive(f"{doubt} nor come to serve{_stood(of)}")
        if of.strikes:  # it lives on, which tells a supervisor what is so
            return Finding([], {"ends": 0})
        raise Inconclusive("the front has not ended")
    code, by = ended.data.get("code"), ended.data.get("signal")
    if code is None and by is None:
        raise Inconclusive("nobody could tell how the front ended")
    asked = [s for s in of.strikes if s.part == "front" and s.t <= ended.t and s.fault in _NUMBERS]
    if asked:
        number = int(_NUMBERS[asked[-1].fault])
        if by == number or code in (0, 128 + number):
            return Finding([], {"ends": 1})
        cause = f"the front was sent {_signal(asked[-1].fault)} and ended with {_how(code, by)}"
        return Finding([Violation("no-error", cause, lines(of, ended))])
    told = of.history.first("told-to-end")
    if told is not None and told.t <= ended.t:
        if by == signal.SIGTERM or code in (0, 128 + signal.SIGTERM):
            return Finding([], {"ends": 1})
        cause = f"the front was sent SIGTERM, idle, and ended with {_how(code, by)}"
        return Finding([Violation("no-error", cause, lines(of, ended))])
    if code == 0:
        cause = f"the service ended by itself with status 0; {_what_was_done(of)}"
        return Finding([Violation("no-error", cause, lines(of, ended))])
    return Finding([], {"ends": 1})


def check_e8_orphans(of: Life, ledger: Ledger) -> Finding:
    """E8: within 10 s of the front's death every process and every port is gone."""
    killed = any(each.part == "front" and each.fault == "kill" for each in of.strikes)
    told = of.first(*(("kill",) if killed else ("sigterm", "sigint")), part="front")
    bound = told.t + int(GONE_WITHIN * of.slow * SECOND)
    bound += of.history.allowance(told.t, bound)
    left = of.alive_at(bound)
    if left and of.until < bound:
        raise Inconclusive(_too_slow(of, "the tree"))
    if left:
        looked = of.history.first("looked-on")
        held = looked is not None and looked.number("ports", 0) > 0
        ports = ", and hold its ports" if held else ""
        seconds = (of.until - told.t) / SECOND
        if of.gone is None:
            cause = f"the front was killed, and {listed(left)} still lived {seconds:.0f} s later"
            cause += ports + _stood(of)
            return Finding([Violation("leak", cause, lines(of), of="processes")])
        cause = f"the front was killed, and {listed(left)} still lived 10 s later"
        return Finding([Violation("late", cause, lines(of))])
    alone = of.alive_at(told.t - 1) in ([], ["front"])
    if not alone and (ledger.segments or ledger.files):
        cause = f"the front was killed, and those that outlived it left {ledger.words()}"
        return Finding([Violation("leak", cause, [*lines(of), *ledger.lines()], of="names")])
    return Finding([], {"deaths": 1})


def check_e9_capacity_given_back(of: Life, ledger: Ledger) -> Finding:
    """E9: a client that hung up holds nothing after 5 s, and costs no other client an answer."""
    del ledger
    costly = [each for each in of.load() if each.end not in ("whole", "open")]
    if costly:
        slow = of.history.first("reads-slowly") is not None
        who = "read slowly, they or" if slow else "went away,"
        cause = f"beside clients that {who} others got no answer: {counted_ends(costly)}"
        return Finding([Violation("lost", cause, lines(of, *answers(of, costly)))])
    hung = list(of.history.of("hung-up"))
    if not hung and not any(of.history.of("reads-nothing", "reads-slowly")):
        raise Inconclusive("no client went away")
    if not hung:
        return Finding([], {"answers": len(of.load())})
    if not of.gauges:
        raise Inconclusive("the server's metrics do not say how many requests are open")
    after = hung[-1].t + int(_BACK_WITHIN * SECOND)
    after += of.history.allowance(hung[-1].t, after)
    seen = [(t, number) for t, number in of.gauges if t > after]
    if not seen:
        raise Inconclusive("nobody looked at the server's metrics after clients had hung up")
    if max(number for t, number in of.gauges if t <= hung[-1].t) < 1:
        raise Inconclusive("the server's metrics showed no request in flight")
    # Answers that end together set the two numbers apart for a moment; a leak stays.
    if statistics.median(number - _open_at(of, t) for t, number in seen) > 0.5:
        cause = "5 s after clients hung up the server's own metrics still count their requests"
        shown = lines(of, *hung[-1:], *(e for e in of.history.of("gauge") if e.t > after))
        return Finding([Violation("leak", cause, shown)])
    return Finding([], {"hung up": len(hung), "answers": len(of.load())})


def check_e10_isolation(of: Life, ledger: Ledger) -> Finding:
    """E10: a request that was refused, failed or aborted changes no later answer."""
    del ledger
    refused = list(of.history.of("refusal"))
    hung = list(of.history.of("hung-up"))
    if not refused and not hung and not of.strikes:
        raise Inconclusive("no request was refused, failed or aborted")
    since = min(e.t for e in [*refused, *hung]) if refused or hung else of.strikes[0].t
    later = [each for each in of.load() if each.asked > since and each.end != "open"]
    wrong = [each for each in later if each.end in ("differs", "truncated")]
    if wrong:
        first = "after requests that were refused or aborted, a later one"
        if not refused and not hung:
            first = f"{_what_was_done(of)}, and a later request"
        cause = f"{first} was answered otherwise than before: {wrong[0].why}"
        return Finding([Violation("wrong-data", cause, lines(of, *answers(of, wrong)))])
    if not any(each.end == "whole" for each in later):
        raise Inconclusive("nobody was answered after them")
    return Finding([], {"answers": len(later)})


def check_l1_nothing_left(of: Life, ledger: Ledger) -> Finding:
    """L1: once no process of the server lives, no segment or file of it is left."""
    if of.gone is None or ledger.processes:
        raise JudgedElsewhere("the server still lived: E6 and E8 judge that")
    if ledger.empty() or ledger.all_killed:
        return Finding([], {"plays": 1})
    cause = f"no process of the server was left, and this was: {ledger.words()}"
    cause += f"; {_what_was_done(of)}"
    return Finding([Violation("leak", cause, [*lines(of), *ledger.lines()])], {"plays": 1})


def check_s3_strangers(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """S3: a stranger gets no data, has none decoded, and no request is lost because of it."""
    found = exposure.check_s3_strangers(scenario, history, ledger)
    of = life(history)
    came = history.first("intrude")
    open_then = [each for each in of.load() if came and (each.ended or of.until) > came.t]
    costly = [each for each in open_then if each.end not in ("whole", "open")]
    if costly and not found.violations:
        cause = f"after strangers came, {len(costly)} of {len(open_then)} requests got no answer:"
        cause += f" {counted_ends(costly)}"
        found.violations = [Violation("lost", cause, lines(of, *answers(of, costly)))]
    return found


_NUMBERS = {"kill": signal.SIGKILL, "sigterm": signal.SIGTERM, "sigint": signal.SIGINT}
_EXHAUSTED = {
    "starve": "{part} had no descriptor left to open",
    "fill-shm": "/dev/shm had been filled",
    "fill-tmp": "the TMPDIR had been filled",
}
_JUDGES: dict[str, Callable[[Life, Ledger], Finding]] = {
    "E1": check_e1_every_request_ends,
    "E2": check_e2_tokens,
    "E3": check_e3_survives_a_replica,
    "E4": check_e4_health,
    "E5": check_e5_cut_short,
    "E6": check_e6_ends_at_sigterm,
    "E7": check_e7_exit_status,
    "E8": check_e8_orphans,
    "E9": check_e9_capacity_given_back,
    "E10": check_e10_isolation,
    "H7": check_h7_dialogues,
    "L1": check_l1_nothing_left,
}
_OF_ANY_TREE: dict[str, Checker] = {
    "S1": exposure.check_s1_listeners,
    "S2": exposure.check_s2_permissions,
    "S3": check_s3_strangers,
}
"""Judges of other systems that apply to a server's tree as well."""


def _too_slow(of: Life, what: str) -> str:
    """Return the reason why a bound that a slow machine stretches was not reached."""
    return (
        f"{what} was still there when the play was over, and the bound on a machine this slow (the"
        f" start took {of.slow:.1f} times what it takes at most on a quiet one) was not reached"
    )


def _signal(fault: str) -> str:
    return {"sigterm": "SIGTERM", "sigint": "SIGINT", "kill": "SIGKILL"}.get(fault, fault)


def _how(code: object, by: object) -> str:
    return f"status {code}" if by is None else f"death by signal {by}"


def _what_was_done(of: Life) -> str:
    if not of.strikes:
        return "nothing had been done to it"
    last = of.strikes[-1]
    if last.fault in _EXHAUSTED:
        return _EXHAUSTED[last.fault].format(part=last.part)
    did = {
        "kill": "killed",
        "stop": "stopped",
        "continue": "stopped, and went on",
        "cut": "cut off",
        "heal": "cut off, and joined again",
    }
    word = did.get(last.fault, f"sent {_signal(last.fault)}")
    return f"{last.part} had been {word}"


def _stood(of: Life) -> str:
    stood = of.stood()
    return f": {stood}" if stood else ""


def _was_taken(request: Request) -> bool:
    """Return whether a new request was admitted: neither a connection error nor status 503."""
    if request.end in ("refused", "no-answer", "torn", "open"):
        return False
    return not (request.end == "error" and request.status in _TOLD_NO)


def _stuck(of: Life, t: int) -> bool:
    """Return whether, just before `t`, requests were open and none got a piece or ended whole."""
    since = t - int(_GOES_ON * SECOND)
    seen = [each for each in of.samples if since <= each[0] <= t]
    if not seen or min(each[2] for each in seen) == 0:
        return False
    whole = [each.ended for each in of.load() if each.end == "whole" and each.ended is not None]
    ended = any(since <= at <= t for at in whole)
    return seen[0][1] == seen[-1][1] and not ended


def _longest_pause(of: Life) -> int:
    """Return the control: the longest pause of all open requests before any fault, in ns."""
    until = of.strikes[0].t if of.strikes else of.until
    longest, since, heard = 0, None, 0
    for t, pieces, open_then in of.samples:
        if t > until:
            break
        if not open_then or since is None or pieces != heard:
            since, heard = t, pieces
        longest = max(longest, t - since)
    return longest if of.strikes else 0


def _served(of: Life, t: int) -> bool:
    """Return whether streams got pieces just before `t`."""
    since = t - int(_GOES_ON * SECOND)
    seen = [each for each in of.samples if since <= each[0] <= t]
    return bool(seen) and seen[-1][1] > seen[0][1]


def _lie(of: Life, *, served: bool, since: int, t: int) -> Violation:
    limit = f"more than {_LIES_FOR:g} s"
    if served:
        cause = f"health did not say 200 for {limit} while requests were served"
    else:
        ends = [e.ended for e in of.load() if e.end not in ("whole", "hang", "open")]
        failed = any(at is not None and since <= at <= t for at in ends)
        got = "a token, and those that ended failed" if failed else "a token or an end"
        cause = f"health said 200 for {limit} while no request got {got}"
    looked = [e for e in of.history.of("health") if since <= e.t <= t]
    shown = evidence(of.history, [*of.history.of("struck"), *looked[:2], *looked[-2:]])
    kind = "wrong-data" if served else "no-error"
    return Violation(kind, f"{cause}; {_what_was_done(of)}", shown)


def _open_at(of: Life, t: int) -> int:
    """Return the number of requests that clients wait for, by the last sample up to `t`."""
    return next((each[2] for each in reversed(of.samples) if each[0] <= t), 0)


def _sent_to(history: History) -> list[Violation]:
    """Return the messages for peers alone that a part of the server sent to a stranger."""
    for event in history.of("stranger-got"):
        way, size = event.text("way"), event.number("size", 0)
        if size and way.endswith(("socket", "store")):
            key = f" under key {event.text('key')}" if event.text("key") else ""
            cause = f"a stranger without a key was given a message at port {event.number('port')}"
            cause += f" ({way}{key})"
            return [Violation("exposure", cause, evidence(history, [event]))]
    return []


def judge(id: str, scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """Return what one invariant says of a play of a server.

    Raises:
        Inconclusive: the play says nothing of it; Lacking: no play of this server does.
    """
    of = life(history)
    if id in of.unjudged:
        raise Lacking(of.unjudged[id])
    if id in _OF_ANY_TREE:
        return _OF_ANY_TREE[id](scenario, history, ledger)
    if id not in _JUDGES:
        raise Inconclusive(f"{id} is not judged of a whole server")
    return _JUDGES[id](of, ledger)


class ServerChecks(Checks):
    """Judges of a server's tree; a program may say that an invariant cannot be judged of it."""

    def judge(self, id: str) -> Checker:
        """See the base class; an invariant of another system is inconclusive."""
        return functools.partial(judge, id)

    def harm(self, scenario: Scenario, history: History, ledger: Ledger) -> list[Violation]:
        """See the base class: hangs alone, as lost requests are judged with the rest of S3."""
        del scenario, ledger
        return hangs(history)

    def may_listen_at(self, scenario: Scenario, history: History) -> str:
        """See the base class."""
        start = history.first("server-start")
        return start.text("host") if start is not None else ""

    def sent_to_strangers(self, history: History) -> list[Violation]:
        """See the base class."""
        return _sent_to(history)


CHECKS = ServerChecks()
