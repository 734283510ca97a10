"""One case on trial: it plays scenarios, each is judged at once, and the evidence adds up."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, Protocol, TypeVar, runtime_checkable

import msgspec

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Finding, Inconclusive, Lacking
from killpoint.errors import BadUsage
from killpoint.faults import FAULTS
from killpoint.history.event import Event
from killpoint.scenario import NETWORK_FAULTS, Depth, Fault, Scenario, dump
from killpoint.stage.point_guard import EXIT_FAULT
from killpoint.stage.stage import Play
from killpoint.targets.protocol import Device
from killpoint.verdict import CaseOutcome, Violation

_CRASHES = ("kill", "exit")
_SIGNALS = ("sigterm", "sigint")
_Point = TypeVar("_Point")

Told = Callable[[str, int, int], None]
"""Called with a case that goes on, how many points of its sweeps are done, and how many have been
counted so far: both are 0 where nothing is swept, and each operation adds its own."""


class Player(Protocol):
    """A stage, or whatever plays scenarios in its place."""

    def play(self, scenario: Scenario) -> Play:
        """Play one scenario to its end."""
        ...

    def forget(self, play: Play) -> None:
        """Its record is not needed any more."""
        ...


@runtime_checkable
class Caller(Protocol):
    """A player that can call a function where the target is loaded."""

    def call(self, function: str, data: bytes, within: float) -> bytes:
        """See :meth:`killpoint.stage.stage.Stage.call`."""
        ...


class Violated(Exception):
    """A play broke the invariant: the trial is over."""


class Unsupported(Exception):
    """The target cannot do what the case asks for."""


class UnableHere(Unsupported):
    """This machine does not permit what the case needs: no fault of the target's."""


class Leak(msgspec.Struct):
    """What one play of a trial left behind."""

    violation: Violation
    replay: str | None


class Trial:
    """What a case plays with, and what it has shown so far."""

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
    ) -> None:
        """``folder``: where records and replays are kept, if anywhere; ``target``: for replays.

        ``depth``: how fine the points of sweeps are; ``device``: where workers of pools run;
        ``told``: who is told how far it has come;
        ``examples``: the folder of this case's Hypothesis examples, tried first and added to.
        """
        self.outcome = CaseOutcome(case, case.split("/")[0], "inconclusive")
        self.seed = seed
        self.full = full
        self.swept = False
        """Whether the depth was asked for: the case has sweeps over points of the target's code."""
        self.examples = examples
        self._depth: Depth = depth
        self.device: Device = device
        self.random = random.Random(f"{seed}/{case}")
        self.leaks: list[Leak] = []
        self.plays = 0
        self.convicted: Scenario | None = None
        """The scenario that violated, if one has."""
        self._player = player
        self._folder = folder
        self.target = target
        self._doubts: list[tuple[str, bool]] = []
        """Each with whether the harness is at fault."""
        self._misses: list[str] = []
        self._began = time.monotonic()
        self._told = told
        self._points_done = self._points_counted = 0

    @property
    def depth(self) -> Depth:
        """How fine the points of sweeps are."""
        self.swept = True
        return self._depth

    def judge(self, run: Callable[[Trial], None], lacking: Iterable[str] = ()) -> CaseOutcome:
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

    def play(self, scenario: Scenario, *, may_miss: bool = False) -> Play:
        """Play a scenario and judge it.

        Args:
            may_miss: its point is beyond those that every such call comes to; a play that does
                not come to it either is no evidence, and no doubt.

        Raises:
            Violated: the invariant on trial is violated; the outcome says how.
            Unsupported: the target said that it cannot do it.
        """
        began = time.monotonic()
        play = self._player.play(self._on_device(scenario))
        self.plays += 1
        try:
            self._judge(play, may_miss)
            if self.plays == 1:
                self._record(play, self.outcome.id)
        finally:
            self._player.forget(play)
            if any(isinstance(s, Fault) and s.at and s.fault in _CRASHES for s in scenario.steps):
                self.outcome.crash_runs += 1
                self.outcome.crash_seconds += time.monotonic() - began
        return play

    def call(self, function: str, data: bytes, within: float) -> bytes:
        """Call a function where the target is loaded, in a process of its own.

        Raises:
            Unsupported: whatever plays here has no such place.
        """
        if not isinstance(self._player, Caller):
            raise Unsupported("nothing can be simulated here")
        return self._player.call(function, data, within)

    def over(self, points: Collection[_Point]) -> Iterator[_Point]:
        """Each of the points that a sweep plays; whoever watches is told how far it has come."""
        self._tell(0, len(points))
        for point in points:
            yield point
            self._tell(1, 0)

    def _tell(self, done: int, counted: int) -> None:
        self._points_done += done
        self._points_counted += counted
        if self._told is not None:
            self._told(self.outcome.id, self._points_done, self._points_counted)

    @contextmanager
    def through(self, wrap: Callable[[Player], Player]) -> Generator[None]:
        """Until it is left, every scenario is played by what ``wrap`` makes of the player."""
        before, self._player = self._player, wrap(self._player)
        try:
            yield
        finally:
            self._player = before

    def scout(self, scenario: Scenario) -> Play:
        """Play a scenario to learn from it; it is no evidence.

        Raises:
            Unsupported: the target said that it cannot do it.
        """
        play = self._player.play(self._on_device(scenario))
        self._player.forget(play)
        _refused(play)
        return play

    def _on_device(self, scenario: Scenario) -> Scenario:
        if scenario.pool is None or self.device == "cpu":
            return scenario
        pool = msgspec.structs.replace(scenario.pool, device=self.device)
        return msgspec.structs.replace(scenario, pool=pool)

    def _judge(self, play: Play, may_miss: bool) -> None:
        _refused(play)
        self._note_leaks(play)
        for event in play.history.of("exit"):
            if unexpected(play.scenario, event):
                play.stalled = _last_words(play, event)
        if self._note_strikes(play, may_miss) and not play.stalled:
            self._apply(play)
        elif play.stalled:
            self.doubt(play.stalled, by_harness=True)

    def _apply(self, play: Play) -> None:
        checker = CHECKERS[self.outcome.invariant]
        try:
            finding = checker(play.scenario, play.history, play.ledger)
        except Lacking as lack:
            raise Unsupported(str(lack)) from lack
        except Inconclusive as doubt:
            self.doubt(str(doubt))
            return
        except Exception as broken:
            # A judge that fails has judged nothing; the case must not pass for that.
            why = f"the judge itself failed: {type(broken).__name__}: {broken}"
            self.doubt(why, by_harness=True)
            return
        self.count(finding)
        if finding.violations:
            violation = finding.violations[0]
            self.convicted = play.scenario
            self.convict(violation, self.keep(play, self.outcome.id))

    def count(self, finding: Finding) -> None:
        """Let a play that was judged add to the evidence."""
        self.outcome.runs += 1
        self.outcome.measured += finding.told
        for unit, count in finding.counts.items():
            self.outcome.counts[unit] = self.outcome.counts.get(unit, 0) + count

    def convict(self, violation: Violation, replay: str | None) -> NoReturn:
        """The invariant is violated, and the trial over."""
        self.outcome.outcome = "violated"
        self.outcome.kind, self.outcome.cause = violation.kind, violation.cause
        self.outcome.evidence = violation.evidence
        self.outcome.replay = replay
        raise Violated(violation.cause)

    def keep(self, play: Play, name: str) -> str | None:
        """Keep a play's scenario and record in the run's folder; the scenario's path."""
        if self._folder is None:
            return None
        self._record(play, name)
        return self.keep_text(self._text(play), name)

    def keep_text(self, text: str, name: str) -> str | None:
        """Keep the text of a replay file in the run's folder; its path."""
        if self._folder is None:
            return None
        replay = self._folder / "replays" / f"{stem(name)}.toml"
        replay.parent.mkdir(parents=True, exist_ok=True)
        replay.write_text(text, "utf-8")
        return str(replay)

    def _record(self, play: Play, name: str) -> None:
        if self._folder is None:
            return
        record = self._folder / "plays" / stem(name)
        shutil.rmtree(record, ignore_errors=True)
        shutil.copytree(play.folder, record, ignore=_only_logs)
        (record / "scenario.toml").write_text(self._text(play), "utf-8")
        (record / "ledger.json").write_bytes(msgspec.json.encode(play.ledger))

    def _text(self, play: Play) -> str:
        return dump(msgspec.structs.replace(play.scenario, target=self.target))

    def _note_leaks(self, play: Play) -> None:
        try:
            found = CHECKERS["L1"](play.scenario, play.history, play.ledger)
        except Inconclusive:
            return
        if found.violations and not play.stalled and not self.leaks:
            judged = msgspec.structs.replace(play.scenario, judges=["L1"])
            leaky = msgspec.structs.replace(play, scenario=judged)
            replay = self.keep(leaky, f"L1/in/{self.outcome.id}")
            self.leaks.append(Leak(found.violations[0], replay))

    def _note_strikes(self, play: Play, may_miss: bool) -> bool:
        """Whether each placed fault reached its point and was seen to act."""
        faults = [step for step in play.scenario.steps if isinstance(step, Fault)]
        placed = [step for step in faults if step.at or step.fault in NETWORK_FAULTS]
        if not placed:
            return True
        reached = {event.text("target") for event in play.history.of("reached")}
        ended = {e.text("target") for e in play.history.of("exit", "gone")}
        struck = (
            all(
                step.role in reached and (not FAULTS[step.fault].ends or step.role in ended)
                for step in placed
                if step.at
            )
            and not play.unreached
        )
        self.outcome.struck = (self.outcome.struck or 0) + struck
        if not struck and not may_miss:
            self.outcome.runs += 1
            self._misses.append("a fault did not strike: " + ", ".join(play.unreached))
        return struck

    def doubt(self, reason: str, *, by_harness: bool = False) -> None:
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


def _refused(play: Play) -> None:
    """Whether the machine or the target cannot be asked this, or its adapter is broken."""
    if play.unable:
        raise UnableHere(play.unable)
    for event in play.history.of("end", "cancel-unsupported"):
        if event.kind != "end" or event.text("outcome") == "unsupported":
            raise Unsupported(event.text("error"))
        if event.text("outcome") == "adapter-fault":
            raise BadUsage(f"the adapter: {event.text('error')}")


def unexpected(scenario: Scenario, event: Event) -> bool:
    """Whether a role exited with a status that neither it nor the scenario had meant.

    A death by a signal nobody sent is for the judges: it is the target's. So is what becomes of a
    role that was sent one it may handle.
    """
    told = [step for step in scenario.steps if isinstance(step, Fault)]
    if scenario.terminal and event.text("target") == scenario.roles()[0]:
        return False
    if any(s.fault in _SIGNALS and s.role == event.text("target") for s in told):
        return False
    exits = any(step.fault == "exit" and step.role == event.text("target") for step in told)
    allowed = {0, EXIT_FAULT} if exits else {0}
    return event.number("code", 0) not in allowed


def _last_words(play: Play, event: Event) -> str:
    role = event.text("target")
    said = play.folder / f"{role}.err"
    lines = said.read_text("utf-8", "replace").strip().splitlines() if said.exists() else []
    last = f": {lines[-1]}" if lines else ""
    return f"{role} ended with status {event.number('code')}{last}"


def stem(name: str) -> str:
    """What the files of a case, or of whatever else is kept, are called in a run's folder."""
    return re.sub(r"[^\w.-]+", "-", name)


def _only_logs(_folder: str, names: list[str]) -> set[str]:
    return {name for name in names if not name.endswith((".jsonl", ".err"))}
