"""The comparison of a review: violations new and gone, once both sides were asked the same cases.

New is what is violated on the tree by a case that holds on the base, and whose replay shows on the
tree again and on the base never. Gone is the same the other way round. Where both sides violate a
case by one kind, the two are one violation, unless it is proved that they are of two findings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from killpoint.errors import KillpointError
from killpoint.findings.attribution import Attribution
from killpoint.findings.registry import findings
from killpoint.findings.rows import NEW
from killpoint.judgement.replay import play_once
from killpoint.report.diff import by_chance
from killpoint.report.run_folder import StoredCase
from killpoint.review.outcome import Difference, Review, difference
from killpoint.runner.stage import Stage
from killpoint.scenario import load
from killpoint.signature import signature
from killpoint.targets.registry import resolve
from killpoint.targets.vllm.switch_offs import SWITCH_OFFS
from killpoint.verdict import CaseViolation

_TRIES = 3
"""Plays that a violation is given to show itself."""
_DECIDED = ("held", "violated")
_Shown = tuple[StoredCase, CaseViolation]


class Side(msgspec.Struct):
    """One of the two copies, with the results of its cases."""

    spec: str
    cases: dict[str, StoredCase]


class _Pairs(msgspec.Struct):
    """Violations of the two sides, by whether they look the same."""

    new: list[_Shown] = []
    gone: list[_Shown] = []
    same: list[_Shown] = []
    """Violations of the tree that the base has as well."""


def settle(
    found: Review,
    head: Side,
    base: Side,
    *,
    jobs: int,
    end: float,
    tell: Callable[[str], None] = lambda _: None,
    asks: bool = True,
) -> None:
    """Write into a review what is new, what is gone, and what could not be told.

    Args:
        end: of the monotonic clock; what has not been played again by then is reported so.
        asks: whether differences are attributed to findings.
    """
    pairs = _Pairs()
    for id in dict.fromkeys([*head.cases, *base.cases]):
        _case(found, pairs, head.cases.get(id), base.cases.get(id))
    if asks:
        _attribute(head.spec, pairs.new, jobs, end, tell)
        _attribute(base.spec, pairs.gone, jobs, end, tell)
    _drop_other_words(found, pairs)
    new, gone = _grouped(pairs.new), _grouped(pairs.gone)
    for key in new.keys() & gone.keys():  # a finding that shows in another case now
        found.as_before += len(new.pop(key))
        gone.pop(key)
    for shown, here, there, into in (
        (new, head.spec, base.spec, found.new),
        (gone, base.spec, head.spec, found.gone),
    ):
        for group in shown.values():
            group.sort(key=_is_no_exhibit)
            told = difference(group[0][1], list(dict.fromkeys(case.id for case, _ in group)))
            _confirm(found, told, group[0][1], (here, there), end, into)
    if asks:
        _say_what_is_elsewhere(found, head.spec, pairs.same, jobs, end, tell)
    for told in (found.new, found.gone):
        told.sort(key=Difference.rank)


def _case(found: Review, pairs: _Pairs, now: StoredCase | None, was: StoredCase | None) -> None:
    if now is None:
        return
    if was is None:
        if now.outcome == "violated":
            found.unsure.append(f"{now.id}: {now.kind}; the base was not asked, for want of time")
        return
    found.compared += now.outcome in _DECIDED and was.outcome in _DECIDED
    if by_chance(was, now):
        found.chance.append(now.id)
    elif now.outcome == "violated" and was.outcome == "inconclusive":
        found.unsure.append(f"{now.id}: {now.kind}; inconclusive on the base: {was.cause}")
    elif now.outcome not in _DECIDED:
        if was.outcome == "held":
            why = f": {now.cause}" if now.cause else ""
            found.unsure.append(f"{now.id}: held on the base; {now.outcome} now{why}")
    else:
        before, after = (_by_signature(case) for case in (was, now))
        pairs.new += [(now, v) for name, v in after.items() if name not in before]
        pairs.same += [(now, v) for name, v in after.items() if name in before]
        pairs.gone += [(was, v) for name, v in before.items() if name not in after]
        found.as_before += len(before.keys() & after.keys())


def _by_signature(case: StoredCase) -> dict[str, CaseViolation]:
    return {signature(case.id, v.kind, v.cause): v for v in case.violations}


def _attribute(
    spec: str, shown: Sequence[_Shown], jobs: int, end: float, tell: Callable[[str], None]
) -> None:
    if shown:
        with Attribution(spec, tell) as attribution:
            alone = (msgspec.structs.replace(case, violations=[v]) for case, v in shown)
            attribution.of_cases(alone, jobs, end)


def _drop_other_words(found: Review, pairs: _Pairs) -> None:
    """Merge violations of one kind in one case on both sides, unless they are proved to be two."""
    for new in [*pairs.new]:
        twins = [g for g in pairs.gone if g[0].id == new[0].id and g[1].kind == new[1].kind]
        others = [s for s in pairs.same if s[0].id == new[0].id and s[1].kind == new[1].kind]
        if any(not _are_two(new[1], twin) for _, twin in twins) or others:
            pairs.new.remove(new)
            pairs.same.append(new)
            words = f"{new[0].id}: {new[1].kind}: {new[1].cause}"
            known = [g[1].finding for g in twins if new[1].finding == NEW]
            ended = [id for id in known if id in SWITCH_OFFS]
            if ended and not others:
                found.unsure.append(
                    f"{words}; the base's violation of this kind ends with {ended[0]} switched off,"
                    " and this one does not: a second bug, or the same in changed code"
                )
            else:
                found.otherwise.append(words)
    for gone in [*pairs.gone]:
        shown = (*pairs.new, *pairs.same)
        twins = [s for s in shown if s[0].id == gone[0].id and s[1].kind == gone[1].kind]
        if any(not _are_two(gone[1], twin) for _, twin in twins):
            pairs.gone.remove(gone)


def _are_two(one: CaseViolation, other: CaseViolation) -> bool:
    """Return whether each is ended by a switch-off of its own."""
    named = (one.finding, other.finding)
    return all(id in findings() for id in named) and one.finding != other.finding


def _grouped(shown: Iterable[_Shown]) -> dict[str, list[_Shown]]:
    """Group violations by finding; those that none explains, by their kind and place."""
    groups: dict[str, list[_Shown]] = {}
    for case, violation in shown:
        key = violation.finding or NEW
        if key not in findings():
            place = violation.place
            where = f"{place.file} {place.function}" if place else case.id
            key = f"{NEW} {violation.kind} {where}"
        groups.setdefault(key, []).append((case, violation))
    return groups


def _is_no_exhibit(shown: _Shown) -> bool:
    """Return whether another case is the one that shows its finding best."""
    entry = findings().get(shown[1].finding or NEW)
    return entry is None or entry.exhibit != shown[0].id


def _confirm(
    found: Review,
    told: Difference,
    violation: CaseViolation,
    sides: tuple[str, str],
    end: float,
    into: list[Difference],
) -> None:
    """Keep a difference whose replay shows on the one side, and never on the other."""
    file = Path(violation.replay) if violation.replay else None
    if file is None or not file.is_file() or time.monotonic() > end:
        told.again = False
        into.append(told)
        return
    here, there = sides
    is_new = into is found.new
    try:
        if not _shows(here, file, violation):
            if is_new:
                words = f"{told.cases[0]}: {told.kind}; {_TRIES} plays did not show it again"
                found.unsure.append(f"{words}: {told.cause}")
        elif _shows(there, file, violation):
            found.as_before += 1
        else:
            into.append(told)
    except KillpointError as error:
        found.unsure.append(f"{told.cases[0]}: {told.kind}; not played again: {error}")


def _shows(spec: str, file: Path, violation: CaseViolation) -> bool:
    scenario = load(file)
    with Stage(resolve(spec)) as stage:
        for _ in range(_TRIES):
            played = play_once(stage, scenario, spec)
            kinds = [v.kind for outcome in played.outcomes for v in outcome.violations]
            if violation.kind in kinds:
                return True
    return False


def _say_what_is_elsewhere(
    found: Review,
    spec: str,
    same: Sequence[_Shown],
    jobs: int,
    end: float,
    tell: Callable[[str], None],
) -> None:
    """Mark findings that other cases show on both sides, as far as there is time to ask."""
    told = [each for each in (*found.new, *found.gone) if each.id != NEW]
    if told:
        _attribute(spec, [each for each in same if each[1].finding is None], jobs, end, tell)
        there = {violation.finding for _, violation in same}
        for each in told:
            each.elsewhere = each.id in there
