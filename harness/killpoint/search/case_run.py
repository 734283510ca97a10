"""A case run: it plays the scenarios of one case, judges each at once, and adds up the evidence.

A violation ends the case, but for a sweep over points: that one goes on to look for violations of
another kind or place, until it has found four, has seen one and the same three times, or twenty
seconds have passed. A violation that rests on time is played again alone before it counts, and one
of a play whose roles recorded lines without the recorder.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypeVar

import msgspec

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Finding, Inconclusive, JudgedElsewhere, Lacking
from killpoint.checkers.place import OwnFiles, place_of
from killpoint.runner.stage import Play
from killpoint.scenario import Depth, Fault, Scenario
from killpoint.search.kept_plays import KeptPlays
from killpoint.search.play_evidence import (
    UnableHere,
    Unsupported,
    faults_struck,
    harness_fault,
    is_strike,
    last_words,
    leak_in,
    raise_if_refused,
    unexpected,
)
from killpoint.search.player import Caller, KnowsFiles, Player, PlaysAlone, PlaysRecorded
from killpoint.search.reach import Reach
from killpoint.signature import signature
from killpoint.systems.registry import own_player_of, system_of
from killpoint.targets.shapes import Device
from killpoint.verdict import TIMED, CaseOutcome, CaseViolation, Rate, TargetLine, Violation

_CRASHES = ("kill", "exit")
_KINDS_IN_A_SWEEP, _TIMES_THE_SAME, _AFTER_THE_FIRST = 4, 3, 20.0
"""Limits after which a sweep that has found a violation is over: different violations, sightings of
the same one, seconds since the first. Under ``--full`` the seconds are not counted."""
_ALONE = 3
"""Plays alone that may show a violation again."""
_SERVERS_ALONE = 2
"""Plays alone of a server, each of which takes a minute."""
_UNRECORDED = 10
"""Plays without a recorder of lines that may show again what one with it has shown."""
_CONTROLS = 2
"""Plays without an exception that show what is left anyhow."""
_SAID_NOTHING = 2
"""Plays of a case that said nothing, and are played again alone: a busy machine may have kept a
fault from its point."""
_Point = TypeVar("_Point")

Told = Callable[[str, int, int], None]
"""Called with a case that goes on, how many points of its sweeps are done, and how many have been
counted so far: both are 0 where nothing is swept, and each operation adds its own."""


class Violated(Exception):
    """A play broke the invariant, and the case run is over."""


class Leak(msgspec.Struct):
    """Resources that one play of a case run left behind."""

    violation: Violation
    replay: str | None
    place: TargetLine | None = None
    faults: int = 0
    """Number of faults done to the target in that play."""


class Judged(msgspec.Struct):
    """Verdict of one play on the invariant that is judged."""

    play: Play
    finding: Finding | None = None
    """None if the play is no evidence."""
    doubt: str = ""
    """Reason why the play is no evidence, unless a fault merely missed its point."""
    by_harness: bool = False
    struck: bool | None = None
    """True if every placed fault acted at its point; None if none was placed."""
    is_settled: bool = False
    """True if a further play would be no evidence either."""

    @property
    def violation(self) -> Violation | None:
        """Violation that the play shows; None if it shows none."""
        return self.finding.violations[0] if self.finding and self.finding.violations else None


class CaseRun:
    """Run of one case: what it plays with, and what it has shown so far."""

    def __init__(
        self,
        case: str,
        player: Player,
        *,
        seed: int,
        full: bool,
        folder: Path | None,
        target: str = "",
        depth: Depth = "line",
        device: Device = "cpu",
        told: Told | None = None,
        examples: Path | None = None,
        confirms: bool = False,
        summary: str = "",
        reach: Reach | None = None,
    ) -> None:
        """``folder``: where records and replays are kept, if anywhere; ``target``: for replays.

        ``confirms``: whether a violation that rests on time is played again alone; ``summary``:
        what the case does, in a line: for replays. ``reach``: what is added to if drawn programs
        are played, whose roles then record the lines that they run.

        ``depth``: how fine the points of sweeps are; ``device``: where workers of pools run;
        ``told``: callback that gets the progress; ``examples``: the folder of this case's
        Hypothesis examples, tried first and added to.
        """
        self.outcome = CaseOutcome(case, case.split("/")[0], "inconclusive")
        self.seed = seed
        self.full = full
        self.swept = False
        """True if the depth was read: the case has sweeps over points of the target's code."""
        self.examples = examples
        self._depth: Depth = depth
        self.device: Device = device
        self.random = random.Random(f"{seed}/{case}")
        self.leaks: list[Leak] = []
        self.plays = 0
        self.convicted: Scenario | None = None
        """Scenario of the violation that stands for the case; None if there is none."""
        self._confirms = confirms
        self._left_anyhow: dict[str, dict[str, int]] = {}
        self._said_nothing = 0
        self._recorded = False
        self._sweeping = 0
        self.keeps_latest = False
        """True if a violation replaces those before it: they are shrunk, play by play."""
        self._first_violation = 0.0
        self.reach = reach
        self.records = False
        """True while a play adds to the reach, and none has violated anything yet."""
        self._player = player
        self._own = OwnFiles(player.files if isinstance(player, KnowsFiles) else {})
        self.kept = KeptPlays(folder, target, summary)
        self._doubts: list[tuple[str, bool]] = []
        """Reasons for doubt, each with True if the harness is at fault."""
        self._misses: list[str] = []
        self._began = time.monotonic()
        self._told = told
        self._points_done = self._points_counted = 0

    @property
    def depth(self) -> Depth:
        """Granularity of the points of sweeps."""
        self.swept = True
        return self._depth

    def judge(self, run: Callable[[CaseRun], None], lacking: Iterable[str] = ()) -> CaseOutcome:
        """Let a case play, and conclude; ``lacking``: what it needs and the target has not."""
        words = ", ".join(sorted(lacking))
        try:
            if words:
                raise Unsupported(f"the target lacks {words}")
            run(self)
        except Unsupported as reason:
            self.outcome.outcome, self.outcome.cause = "unsupported", str(reason)
            self.outcome.by_machine = isinstance(reason, UnableHere)
        except Violated:
            pass
        return self.conclude()

    def play(
        self, scenario: Scenario, *, may_miss: bool = False, longer: Scenario | None = None
    ) -> Play:
        """Play a scenario and judge it.

        Args:
            may_miss: its point is beyond those that every such call comes to; a play that does
                not come to it either is no evidence, and no doubt.
            longer: scenario to play in its place, once, where it was too short to judge.

        Raises:
            Violated: the invariant is violated, and no more of it is to be played; the outcome says
                how.
            Unsupported: the target said that it cannot do it.
        """
        began = time.monotonic()
        held: list[Play] = []
        try:
            play = self._hold(held, self._played(self._on_device(scenario)))
            if longer is not None and self._examine(play).finding is None:
                play = self._hold(held, self._player.play(self._on_device(longer)))
            judged = self._judge(play, may_miss, held)
            if self.reach is not None and play.lines is not None:
                counts = judged.finding.counts if judged.finding is not None else {}
                self.reach.take(play.lines, counts.get("states", 0))
            if not self._recorded:
                self._recorded = True
                self.kept.record(judged.play, self.outcome.id)
        finally:
            for each in held:
                self._player.forget(each)
            if any(isinstance(s, Fault) and s.at and s.fault in _CRASHES for s in scenario.steps):
                self.outcome.crash_runs += 1
                self.outcome.crash_seconds += time.monotonic() - began
        self._take(judged, may_miss)
        return play

    def sample(self, scenario: Scenario) -> tuple[Play, list[Violation] | None]:
        """Play one of many scenarios of which only the rate of violations is reported.

        Returns:
            The play, and its violations; None if its fault did not strike, or the play stalled.

        Raises:
            Unsupported: the target said that it cannot do it.
        """
        held: list[Play] = []
        try:
            play = self._hold(held, self._player.play(self._on_device(scenario)))
            judged = self._examine(play)
            self._note_leaks(play, held)
            if judged.struck is not None:
                self.outcome.struck = (self.outcome.struck or 0) + judged.struck
            if play.stalled or not judged.struck:
                return play, None
            if judged.finding is None:
                self.outcome.runs += 1
                return play, []
            self.count(judged.finding)
            if judged.violation is not None:
                self.kept.record(play, self.outcome.id)
            return play, judged.finding.violations
        finally:
            for each in held:
                self._player.forget(each)

    def shows_again(self, scenario: Scenario) -> bool:
        """Play a scenario that convicted once more, and return whether it violates in that way."""
        held: list[Play] = []
        try:
            judged = self._examine(self._hold(held, self._player.play(scenario)))
        finally:
            for each in held:
                self._player.forget(each)
        return judged.violation is not None and judged.violation.kind == self.outcome.kind

    def played_until_it_shows(self, plays: int) -> None:
        """Have the replay of what convicted played until it violates, at most so many times."""
        if self.convicted is None:
            return
        self.convicted = msgspec.structs.replace(self.convicted, plays=plays)
        if self.outcome.replay is not None:
            text = self.kept.replay_of(self.convicted, self.outcome.cause)
            Path(self.outcome.replay).write_text(text, "utf-8")

    def rate(self, rate: Rate) -> None:
        """Add the rate of an outcome of faults at random times."""
        self.outcome.rates.append(rate)

    def call(self, function: str, data: bytes, within: float) -> bytes:
        """Call a function where the target is loaded, in a process of its own.

        Raises:
            Unsupported: whatever plays here has no such place.
        """
        if not isinstance(self._player, Caller):
            raise Unsupported("nothing can be simulated here")
        return self._player.call(function, data, within)

    def with_progress(self, points: Collection[_Point]) -> Iterator[_Point]:
        """Yield each of the points that a sweep plays, and report the progress.

        A violation at one of them does not end the sweep at once.
        """
        self._tell(0, len(points))
        for point in points:
            self._sweeping += 1
            try:
                yield point
            finally:
                self._sweeping -= 1
            self._tell(1, 0)

    def _tell(self, done: int, counted: int) -> None:
        self._points_done += done
        self._points_counted += counted
        if self._told is not None:
            self._told(self.outcome.id, self._points_done, self._points_counted)

    @contextmanager
    def using(self, wrap: Callable[[Player], Player]) -> Generator[None]:
        """Until it is left, every scenario is played by what ``wrap`` makes of the player."""
        before, self._player = self._player, wrap(self._player)
        try:
            yield
        finally:
            self._player = before

    def dry_run(self, scenario: Scenario) -> Play:
        """Play a scenario to learn from it; it is no evidence.

        Raises:
            Unsupported: the target said that it cannot do it.
        """
        play = self._player.play(self._on_device(scenario))
        self._player.forget(play)
        raise_if_refused(play)
        return play

    def _played(self, scenario: Scenario) -> Play:
        """Play it, and have its roles record the lines that they run if that is asked for."""
        if self.records and isinstance(self._player, PlaysRecorded):
            return self._player.play_recorded(scenario)
        return self._player.play(scenario)

    def _on_device(self, scenario: Scenario) -> Scenario:
        return system_of(scenario).on_device(scenario, self.device)

    def _hold(self, held: list[Play], play: Play) -> Play:
        """Count a play, whose folder stays until it is judged."""
        self.plays += not play.shared
        held.append(play)
        return play

    def _judge(self, play: Play, may_miss: bool, held: list[Play]) -> Judged:
        """Judge a play.

        A violation that rests on time, or was seen by a play that recorded lines, is confirmed when
        it is first seen.
        """
        judged = self._examine(play)
        if judged.finding is None and not (may_miss and judged.struck is False):
            judged = self._once_more(judged, held)
        violation = judged.violation
        if violation is None:
            self._note_leaks(judged.play, held)
            return judged
        again: list[int] = []
        if judged.play.alone:
            self._confirmed.add(self._of_a_finding(judged.play, violation))
            again = [1, 1]
        elif self._is_to_confirm(judged.play, violation) and isinstance(self._player, PlaysAlone):
            judged, again = self._alone(self._player, judged, violation, held)
        elif judged.play.lines is not None:
            judged = self._unrecorded(judged, violation, held)
        if judged.violation is not None:
            self._fail_by(judged, again)
        return judged

    def _examine(self, play: Play) -> Judged:
        raise_if_refused(play)
        for event in play.history.of("exit"):
            if unexpected(play.scenario, event):
                play.stalled = last_words(play, event)
        play.stalled = play.stalled or harness_fault(play)
        struck = faults_struck(play)
        if struck is False:
            return Judged(play, struck=False)
        if play.stalled:
            return Judged(play, None, play.stalled, True, struck)
        if self.outcome.invariant == "R9" and not play.ledger.empty():
            play.ledger.usual = self._usual(play.scenario)
        checker = CHECKERS[self.outcome.invariant]
        try:
            return Judged(play, checker(play.scenario, play.history, play.ledger), struck=struck)
        except Lacking as lack:
            raise Unsupported(str(lack)) from lack
        except Inconclusive as doubt:
            settled = isinstance(doubt, JudgedElsewhere)
            return Judged(play, None, str(doubt), False, struck, settled)
        except Exception as broken:
            # A judge that fails has judged nothing; the case must not pass for that.
            why = f"the judge itself failed: {type(broken).__name__}: {broken}"
            return Judged(play, None, why, True, struck)

    def _usual(self, scenario: Scenario) -> dict[str, int]:
        """Return what the same steps leave without exceptions, by sort; the least of two plays."""
        plain = [s for s in scenario.steps if not is_strike(s)]
        key = repr(plain)
        if key not in self._left_anyhow:
            control = msgspec.structs.replace(scenario, steps=plain)
            left = [self.dry_run(control).ledger.counts() for _ in range(_CONTROLS)]
            self._left_anyhow[key] = {s: min(c.get(s, 0) for c in left) for s in left[0]}
        return self._left_anyhow[key]

    def _once_more(self, judged: Judged, held: list[Play]) -> Judged:
        """Play a scenario again alone if its play was no evidence, and judge that.

        A server's play takes a minute: if it is one of several of a race, the others are evidence;
        and a part that was gone when its fault was due is gone the next time, too.
        """
        if judged.is_settled or not (self._confirms and isinstance(self._player, PlaysAlone)):
            return judged
        gone = any(e.data.get("gone") for e in judged.play.history.of("not-reached"))
        if own_player_of(judged.play.scenario) and (judged.play.scenario.plays > 1 or gone):
            return judged
        if self._said_nothing >= _SAID_NOTHING:
            return judged
        self._said_nothing += 1
        again = self._examine(self._hold(held, self._player.play_alone(judged.play.scenario)))
        if again.finding is None:
            self.kept.record(again.play, f"{self.outcome.id}-doubt")
        return again

    def _is_to_confirm(self, play: Play, violation: Violation) -> bool:
        doubtful = violation.kind in TIMED or play.provisional
        if not (self._confirms and doubtful) or self._known(violation) is not None:
            return False
        mine = self._of_a_finding(play, violation)
        return not mine or mine not in self._confirmed

    @property
    def _confirmed(self) -> set[str]:
        """Violations that plays alone of whole servers have shown, in this case or in others."""
        return self._player.confirmed if isinstance(self._player, PlaysAlone) else set()

    def _of_a_finding(self, play: Play, violation: Violation) -> str:
        """Return the signature confirmed once for all plays of a server; empty for other plays.

        Each play of a server takes a minute, and the same is seen in several of them. Behind the
        first colon a cause says which part waits where: that is each play's own.
        """
        if own_player_of(play.scenario) is None:
            return ""
        return signature(self.outcome.invariant, violation.kind, violation.cause.partition(": ")[0])

    def _alone(
        self, player: PlaysAlone, first: Judged, violation: Violation, held: list[Play]
    ) -> tuple[Judged, list[int]]:
        """Plays alone, until one shows a violation; the last of them, and how many of how many.

        If none does, it is the last play alone that counts: what was seen before is no violation.
        """
        judged = first
        is_of_a_server = own_player_of(first.play.scenario) is not None
        most = _SERVERS_ALONE if is_of_a_server else _ALONE
        with contextlib.nullcontext() if is_of_a_server else player.without_others():
            for count in range(1, most + 1):
                judged = self._examine(self._hold(held, player.play_alone(first.play.scenario)))
                if judged.violation is not None:
                    self._confirmed.add(self._of_a_finding(judged.play, judged.violation))
                    return judged, [1, count]
        seen = f"{violation.kind}: {violation.cause}"
        where = "of a forked server" if is_of_a_server else "beside other plays"
        how = "as its users start it" if is_of_a_server else "alone"
        self.outcome.unconfirmed.append(f"{seen} ({where}; in none of {most} {how})")
        return judged, []

    def _unrecorded(self, first: Judged, violation: Violation, held: list[Play]) -> Judged:
        """Play a scenario without the recorder until that shows a violation; return the last."""
        judged = first
        for _ in range(_UNRECORDED):
            judged = self._examine(self._hold(held, self._player.play(first.play.scenario)))
            if judged.violation is not None:
                return judged
        seen = f"{violation.kind}: {violation.cause}"
        none = f"in none of {_UNRECORDED} that recorded nothing"
        self.outcome.unconfirmed.append(f"{seen} (in a play that recorded lines; {none})")
        return judged

    def _take(self, judged: Judged, may_miss: bool) -> None:
        """Let a judged play add to the evidence.

        Raises:
            Violated: it has shown a violation, and no more is to be played.
        """
        if judged.struck is not None:
            self.outcome.struck = (self.outcome.struck or 0) + judged.struck
            if not judged.struck and not may_miss:
                self.outcome.runs += 1
                self._misses.append("a fault did not strike: " + ", ".join(judged.play.unreached))
        if judged.doubt:
            self.inconclusive(judged.doubt, by_harness=judged.by_harness)
        if judged.finding is not None:
            self.count(judged.finding)
        if judged.violation is not None and not self._goes_on():
            raise Violated(self.outcome.cause)

    def _goes_on(self) -> bool:
        """Return whether a sweep that has found a violation is to look for others."""
        found = self.outcome.violations
        often = sum(violation.plays for violation in found) >= _TIMES_THE_SAME + len(found) - 1
        late = time.monotonic() > self._first_violation + _AFTER_THE_FIRST and not self.full
        return self._sweeping > 0 and not (len(found) >= _KINDS_IN_A_SWEEP or often or late)

    def count(self, finding: Finding) -> None:
        """Let a play that was judged add to the evidence."""
        self.outcome.runs += 1
        self.outcome.measured += finding.told
        for unit, count in finding.counts.items():
            self.outcome.counts[unit] = self.outcome.counts.get(unit, 0) + count

    def fail(self, violation: Violation, replay: str | None) -> NoReturn:
        """The invariant is violated, and the case run is over.

        Raises:
            Violated: always.
        """
        self.outcome.add(violation, replay, place_of(violation, self._own))
        raise Violated(violation.cause)

    def _fail_by(self, judged: Judged, again: list[int]) -> None:
        violation = judged.violation
        assert violation is not None
        known = self._known(violation)
        if known is not None and not self.keeps_latest:
            known.plays += 1
            return
        self.records = False
        if self.keeps_latest:
            self.outcome.violations.clear()
        nth = len(self.outcome.violations)
        name = self.outcome.id if nth == 0 else f"{self.outcome.id}-{nth + 1}"
        place = place_of(violation, self._own, judged.play.history)
        replay = self.kept.replay(judged.play, name, violation.cause)
        noted = self.outcome.add(violation, replay, place)
        noted.alone = again
        self._first_violation = self._first_violation or time.monotonic()
        if self.outcome.violations[0] is noted:
            self.convicted = judged.play.scenario

    def _known(self, violation: Violation) -> CaseViolation | None:
        """The same violation, if an earlier play has shown it."""
        name = self._signature(violation)
        return next((v for v in self.outcome.violations if self._signature(v) == name), None)

    def _signature(self, violation: Violation | CaseViolation) -> str:
        return signature(self.outcome.id, violation.kind, violation.cause)

    def _note_leaks(self, play: Play, held: list[Play]) -> None:
        """Keep a play that left something behind, whichever invariant is judged.

        A forked server leaves what its users' never does: its parts inherit no resource tracker.
        Nor are leaks noted of a play that confirms another: whether there is one is chance.
        """
        system = own_player_of(play.scenario)
        if system is not None and play.alone and not system.as_users(play.scenario):
            return
        if self.leaks or play.stalled or play.provisional or self.outcome.invariant == "L1":
            return
        found = leak_in(play)
        if found is None:
            return
        doubtful = play.ledger.processes or play.lines is not None
        if doubtful and self._confirms and isinstance(self._player, PlaysAlone):
            play = self._hold(held, self._player.play_alone(play.scenario))
            found = None if play.stalled else leak_in(play)
        if found is None:
            return
        judged = msgspec.structs.replace(play.scenario, judges=["L1"])
        leaky = msgspec.structs.replace(play, scenario=judged)
        replay = self.kept.replay(leaky, f"L1/in/{self.outcome.id}", found.cause)
        faults = sum(1 for _ in play.history.of("fault"))
        self.leaks.append(Leak(found, replay, place_of(found, self._own, play.history), faults))

    def inconclusive(self, reason: str, *, by_harness: bool = False) -> None:
        """Say why the case cannot be held, unless it is violated; and whose fault that is."""
        self._doubts.append((reason, by_harness))

    def conclude(self) -> CaseOutcome:
        """The case's outcome after its last play."""
        outcome = self.outcome
        outcome.seconds = round(time.monotonic() - self._began, 3)
        if outcome.outcome == "inconclusive" and not outcome.cause:
            few = len(self._misses) <= outcome.runs // 20  # the least that 95 in 100 allows
            if outcome.runs and not self._doubts and few:
                outcome.outcome = "held"
            else:
                misses = [(miss, False) for miss in (*self._misses, "nothing was played")]
                outcome.cause, outcome.by_harness = [*self._doubts, *misses][0]
        return outcome
