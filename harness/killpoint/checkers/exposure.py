"""Exposure to strangers: listeners, rights, messages, keys, floods (S1 to S4)."""

from __future__ import annotations

import ipaddress
import re
from typing import cast

from killpoint.checkers.base import checks_of
from killpoint.checkers.finding import Finding, Inconclusive, Lacking, evidence
from killpoint.history.event import Event
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.registry import system_of
from killpoint.verdict import Violation, counted

_GROWS_AT_MOST = 40 << 20
"""Bytes; the flood pours more than that down one connection."""
_LOGS_AT_MOST = 64 << 10
"""Bytes; a line for each connection of a flood is more than that."""
SPARE = 64
"""Descriptors that a process has left, or has again some seconds after a flood has come."""
_KNOWN = ("ff0000", "485454502f", "15030")
"""First bytes, in hex, of what ZeroMQ, HTTP and TLS answer any client: a greeting, or a refusal."""
_OTHERS = (("everybody", 0), ("its group", 3))
"""Users beside the owner, and the shift to their bits of a file mode."""


def check_s1_listeners(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """S1: no process listens at another address than the shape's own, or loopback."""
    looks = list(history.of("looked"))
    if not looks:
        raise Inconclusive("nobody was looked at")
    heard = list(history.of("listener"))
    asked = checks_of(scenario).may_listen_at(scenario, history)
    if asked and not heard:
        raise Inconclusive("no TCP listener was found, although some party is to be reached by TCP")
    found: list[Violation] = []
    for event in heard:
        if _wider(event.text("address"), asked) and not found:
            found = [_wide(history, event, asked)]
    return Finding(found, {"looks": len(looks), "listeners": len(heard)})


def _wider(address: str, asked: str) -> bool:
    at = ipaddress.ip_address(address)
    mapped = at.ipv4_mapped if isinstance(at, ipaddress.IPv6Address) else None
    if (mapped or at).is_loopback:
        return False
    try:
        return ipaddress.ip_address(asked) not in (at, mapped)
    except ValueError:  # a name, or nothing: then no address but loopback was asked for
        return True


def _wide(history: History, event: Event, asked: str) -> Violation:
    address, port, role = event.text("address"), event.number("port"), event.text("target")
    everywhere = ipaddress.ip_address(address).is_unspecified
    where = "all addresses" if everywhere else address
    looked = [e for e in history.of("looked") if e.text("target") == role and e.t <= event.t]
    own = bool(looked) and looked[-1].number("pid") == event.number("pid")
    opened = f"{role}{'' if own else ' (by a child)'}, process {event.number('pid')}"
    cause = (
        f"{role} listens on {where}, port {port} ({address}), where"
        f" {asked or 'nothing but loopback'} was asked for; opened by {opened}"
        f" ({event.text('by')})"
    )
    return Violation("exposure", cause, evidence(history, [event]))


def check_s2_permissions(scenario: Scenario, history: History, _ledger: Ledger) -> Finding:
    """S2: no socket, segment, temporary file or folder gives rights to another user."""
    if not list(history.of("looked")):
        raise Inconclusive("nobody was looked at")
    kinds = ("socket-path", "segment-rights", "segment-made", "file-rights")
    seen = list(history.of(*kinds))
    counts = {"paths": len(seen)}
    if not seen:
        raise Lacking("it had no socket path, segment or temporary file when it was looked at")
    for event in seen:
        who = _reachable_by(event)
        if who:
            return Finding([_open_to(scenario, history, event, who)], counts)
    return Finding([], counts)


def _reachable_by(event: Event) -> str:
    """Return who besides the owner has rights on the event's path or segment; empty if no one."""
    directory = bool(event.data.get("directory"))
    wanted = {"socket-path": 0o2}.get(event.kind, 0o7 if directory else 0o6)
    for who, shift in _OTHERS:
        granted = event.number("mode", 0) >> shift & wanted
        if granted and all(mode >> shift & 0o1 for _, mode in _folders(event)):
            return who
    return ""


def _folders(event: Event) -> list[tuple[str, int]]:
    chain = cast("list[tuple[str, int]]", event.data.get("folders", []))
    return [(str(path), int(mode)) for path, mode in chain]


def _open_to(scenario: Scenario, history: History, event: Event, who: str) -> Violation:
    role = event.text("target") or event.role
    words = {
        "socket-path": f"{role}'s socket path {{}} (mode {{}}) can be connected to by {{}}",
        "segment-rights": f"{role}'s segment {{}} (mode {{}}) can be opened by {{}}",
        "segment-made": f"{role}'s segment {{}} was made with mode {{}}, so that it could be"
        " opened by {}",
        "file-rights": "temporary path {} (mode {}) can be used by {}",
    }
    name = event.text("path") or _kind_of(event.text("name"))
    mode = f"0o{event.number('mode', 0):03o}"
    closed = " and every folder above it lets them through" if _folders(event) else ""
    umask = "" if scenario.umask is None else f" under umask 0o{scenario.umask:03o}"
    cause = f"{words[event.kind].format(name, mode, who)}{closed}{umask}"
    return Violation("exposure", cause, evidence(history, [event]))


def _kind_of(name: str) -> str:
    """A segment's name without what was drawn for it: no two plays have the same."""
    kind = re.match(r"[^\W\d_]+", name)
    return f"{kind[0]}…" if kind and kind[0] != name else name


def check_s3_strangers(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """S3: a stranger gets no message and has none decoded; no key is shown; nothing is lost."""
    came = list(history.of("stranger-stands"))
    stood = [e for e in came if e.number("ports", 0) or _reached(history)]
    keys = [e for e in history.of("secrets") if e.number("count", 0)]
    if not stood and not keys and history.first("secrets"):
        raise Lacking("its handles hold no secret, so there is none to be seen")
    shut = [e for e in history.of("intrude") if e.text("how") != "flood" and not _reached(history)]
    if not stood and not keys and not (shut and not system_of(scenario).listens):
        raise Inconclusive("no stranger reached a port, and no key was looked for")
    checks = checks_of(scenario)
    taken = _taken(history) or checks.sent_to_strangers(history)
    found = _decoded(history) or taken or _peered(history) or _shown(history)
    found = found or (checks.harm(scenario, history, ledger) if stood or shut else [])
    return Finding(found[:1], {"strangers": len(stood), "keys looked for": len(keys)})


def _reached(history: History) -> bool:
    """Return whether a stranger connected to a port."""
    return bool(list(history.of("stranger-connected")))


def check_s4_floods(scenario: Scenario, history: History, ledger: Ledger) -> Finding:
    """S4: a flood costs no message, little memory and log, and not the last descriptors.

    A flood has come in full where each listener was offered more connections than its process has
    descriptors, or took no more of them for seconds although it could run.
    """
    costs = list(history.of("flood-cost"))
    if not costs:
        raise Inconclusive("nobody was flooded")
    flooded = list(history.of("stranger-flooded"))
    counts = {
        "floods": len(costs),
        "ports": len(flooded),
        "connections": sum(event.number("arrived") for event in flooded),
    }
    if not flooded and system_of(scenario).listens:
        raise Inconclusive("the flood found no port")
    found = _grown(history, costs) or checks_of(scenario).harm(scenario, history, ledger)
    short = [why for event in flooded if (why := _fell_short(history, event))]
    if short and not found:
        raise Inconclusive(short[0])
    return Finding(found[:1], counts)


def _fell_short(history: History, event: Event) -> str:
    """Return why a listener was not flooded in full by no doing of its own; empty if it was."""
    arrived, asked = event.number("arrived"), event.number("asked")
    some = f"{arrived} of {counted(asked, 'connections')} of a flood were made"
    if not event.data.get("able", True):
        return f"{some}: the stranger had no descriptor for more"
    if arrived == asked:
        return ""
    if not arrived:
        return f"none of the {asked} connections of a flood were made"
    took = event.data.get("s")
    lasted = int(took * 1e9) if isinstance(took, (int, float)) else 0
    if history.lateness(event.t - lasted, event.t) > lasted / 2:
        return f"{some}: for most of that time the machine kept a party from running"
    return ""


def _grown(history: History, costs: list[Event]) -> list[Violation]:
    asked = {e.text("target"): e for e in history.of("intrude") if e.text("how") == "flood"}
    for event in costs:
        role = event.text("target")
        owners = cast("list[str]", asked[role].data.get("owners") or []) if role in asked else []
        by = f" (listeners of {', '.join(owners)})" if owners else ""
        what = ""
        allowed = event.number("allowed", 1024)
        if event.number("grown") > _GROWS_AT_MOST:
            what = f"took more than {_GROWS_AT_MOST >> 20} MiB of memory for a stranger's"
        elif event.number("descriptors") > allowed - SPARE:
            what = f"held more than {allowed - SPARE} of {allowed} descriptors for a stranger's"
        elif event.number("logged", 0) > _LOGS_AT_MOST:
            what = f"wrote more than {_LOGS_AT_MOST >> 10} KiB of log for a stranger's"
        if what:
            cause = f"{role}{by} {what} connections, none of which had proved anything"
            return [Violation("exposure", cause, evidence(history, [event]))]
    return []


def _taken(history: History) -> list[Violation]:
    for event in history.of("stranger-got"):
        holds = event.data.get("holds")
        if holds:
            first = cast("list[int]", holds)[0]
            way, port = event.text("way"), event.number("port")
            key = f" under key {event.text('key')}" if event.text("key") else ""
            cause = f"a stranger without a key read message {first} at port {port} ({way}{key})"
            return [Violation("exposure", cause, evidence(history, [event]))]
    return []


def _peered(history: History) -> list[Violation]:
    """Return a violation if a listener took a stranger for a peer: it stayed, or was answered."""
    for event in history.of("stranger-kept"):
        library, by = event.text("library"), event.text("by")
        cause = (
            f"{by}'s {library} listener let in a stranger that said the number of a pair:"
            f" {library} asks for no proof, and takes whoever comes first for a peer"
        )
        return [Violation("exposure", cause, evidence(history, [event]))]
    for event in history.of("stranger-got"):
        if event.text("way") == "a peer's handshake" and not event.text("begin").startswith(_KNOWN):
            cause = "a stranger that said the number of a pair was taken for a peer and given bytes"
            return [Violation("exposure", cause, evidence(history, [event]))]
    return []


def _decoded(history: History) -> list[Violation]:
    for event in history.of("canary"):
        who = _role_of(history, event.number("pid"))
        cause = f"{who} decoded what a stranger without a key had sent ({event.text('way')})"
        return [Violation("exposure", cause, evidence(history, [event]))]
    return []


def _role_of(history: History, pid: int) -> str:
    known = [e for e in history.of("exit", "looked", "fault") if e.number("pid") == pid]
    return known[0].text("target") if known else f"process {pid}"


def _shown(history: History) -> list[Violation]:
    for event in history.of("secrets"):
        places = cast("list[str]", event.data.get("shown") or [])
        if places:
            cause = f"a key that {event.role} holds can be read in {', '.join(places)}"
            return [Violation("exposure", cause, evidence(history, [event]))]
    return []
