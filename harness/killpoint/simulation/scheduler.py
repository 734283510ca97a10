"""Scheduler of one process: tasks are greenlets, and a chooser picks the next one at each point.

Every nondeterministic choice goes through its ``chooser``, so the list of choices is the schedule.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import greenlet

from killpoint.errors import CannotWork
from killpoint.interfaces import Action, Chooser, Diverged, Option, Script, Source
from killpoint.simulation.choice_sets import ChoiceSet, Menus, menus_of, values
from killpoint.simulation.ending import Ending, EventLine, How
from killpoint.simulation.thread_tasks import ThreadTask, getcurrent

STEP_LIMIT = 20_000
_TICKS = (0.01, 1.0, 100.0)
"""Seconds by which the clock jumps for spinning tasks when no task can go on, one after another;
after the last it is a deadlock."""
_LOOKS = 4
"""Number of times a task may look again at once although it, or another task, keeps changing
things."""
_THROWS = 50
"""Most times that a task which is aborted may swallow the exception."""

_GREENLETS = greenlet.greenlet, greenlet.getcurrent
_THREADS = ThreadTask, getcurrent

_NEVER = sys.maxsize


class Abort(BaseException):
    """Exception thrown into a task whose run is over; only its ``finally`` blocks may run."""


class Unfair(CannotWork):
    """A task looped without a yield, a spin or a wait, while others could have gone on.

    On a machine they would have, so such a run says nothing.
    """


class _Task:
    """A task, and its state while it does not run."""

    __slots__ = (
        "deadline",
        "error",
        "index",
        "label",
        "let",
        "look",
        "looks",
        "name",
        "observed",
        "ready",
        "seen",
        "spun",
        "stale",
        "turn",
    )

    def __init__(self, index: int, name: str, let: Any) -> None:
        self.index, self.name, self.let = index, name, let
        self.seen = -1
        """Version of the world at its first point since it last spun; -1: none."""
        self.stale = False
        self.looks = 0
        """Number of its spins that did not put it to sleep."""
        self.observed = 0
        """Hash of all that it has seen and done: where it is, and what it knows."""
        self.look = 0
        """Hash of what it has seen and done since it last spun."""
        self.spun: tuple[int, int] = (0, 0)
        """Its ``observed`` and ``look`` when it last spun."""
        self.label = ""
        """Wait reason, empty if it can run."""
        self.ready: Callable[[], bool] | None = None
        """Predicate that lets it go on; None: any change does."""
        self.deadline: float | None = None
        self.error: BaseException | None = None
        self.turn = 0
        """Step at which it was last given the turn."""


class Scheduler:
    """Scheduler of one run. Add tasks, ``run`` once, discard (or restore, and ``follow``).

    Args:
        chooser: picks wherever there is more than one option.
        limit: steps after which the run is aborted.
        recording: whether to record the events of the run.
        early: whether a wait may end by its time although others could still run (a choice).
        late: whether time may pass while data is in transit (a choice; ``Source.lasting``).
        threads: whether tasks are threads, and not greenlets.
    """

    def __init__(
        self,
        chooser: Chooser,
        *,
        limit: int = STEP_LIMIT,
        recording: bool = False,
        early: bool = False,
        late: bool = False,
        threads: bool = False,
    ) -> None:
        self._lets: Any = _THREADS if threads else _GREENLETS
        self.shared: Callable[[], object] | None = None
        """Gives all that tasks share beside the scheduler, as something to be hashed; None: that
        is not known, so states cannot be told apart."""
        self.follow(chooser)
        self.recording = recording
        self.hurried: list[tuple[float, float]] = []
        """Jumps of the clock by choice: from, to, in simulated seconds."""
        self.now = 0.0
        self.steps = 0
        self.version = 0
        """Number of changes that other tasks could see."""
        self._limit = self._end = limit
        self._early = early
        self._late = late
        self._tasks: list[_Task] = []
        self._running: _Task | None = None
        self.current = "-"
        """Name of the running task; ``-`` outside of all."""
        self._menu: ChoiceSet | None = None
        """Choices among tasks; None: to be computed anew."""
        self._can = 0
        """A bit for each task that can run."""
        self._asleep: list[_Task] = []
        self._spinning = 0
        """Number of sleeping tasks that any change wakes."""
        self._stirred = False
        """True if a change that may wake one has come since the sleeping tasks were last
        checked."""
        self._sources: list[Source] = []
        self._offers: Callable[[], Sequence[Action]] | None = self._acts if early else None
        """Actions that the environment offers now; None: it never offers any."""
        self._menus: Menus = {}
        self._how: How | None = None
        self._waiting: dict[str, str] = {}
        self._error: Exception | None = None
        """Error for which the run says nothing."""
        self._ticks = 0
        self._progressed: dict[str, int] = {}
        self._lines: list[EventLine] = []

    # -- what a stage calls -----------------------------------------------------------------

    def follow(self, chooser: Chooser) -> None:
        """Use this chooser: before the run, or to repeat the run of a restored world."""
        self.choices: list[int] = []
        self._pick = chooser.choose
        script = chooser if isinstance(chooser, Script) else None
        self._given = script.prefix if script else ()
        """Choices that are known without the chooser."""
        self._scripted = len(script.prefix) if script else _NEVER
        """Number of choices from which on the default is taken, without the chooser either."""
        self._offered = script.seen if script else None
        self._states = script.states if script else None
        self._accesses = script.accesses if script else None
        self._hub = self._lets[1]()

    def task(self, name: str, run: Callable[[], Any]) -> None:
        """Add a task; the first one runs first."""

        def body() -> None:
            try:
                run()
            except Abort:
                pass
            except BaseException as error:
                task.error = error

        task = _Task(len(self._tasks), name, self._lets[0](body, self._hub))
        self._tasks.append(task)
        self._menus = menus_of(tuple(each.name for each in self._tasks))
        self._allow(task, True)

    def add(self, source: Source) -> None:
        """Add a part of the environment."""
        self._sources.append(source)
        one = len(self._sources) == 1 and not self._early
        self._offers = source.actions if one else self._acts

    def run(self) -> Ending:
        """Run to the end, whichever it is.

        Raises:
            Diverged: the schedule does not fit.
            Unfair: a task loops and never yields.
            Exception: an error that a task raised and did not handle.
        """
        self._hub = self._lets[1]()
        if self.shared is None:
            self._states = None
        with contextlib.suppress(Abort):
            while self._how is None:
                if all(task.let.dead for task in self._tasks):
                    self._stop("done")
                    break
                task = self._next()
                if task is not None:
                    self._run(task)
                    task.let.switch()
                    self._reap()
        self._abort_all()
        if self._error is not None:
            raise self._error
        how = self._how or "done"
        return Ending(how, self.choices, self.steps, self.now, self._waiting, self._lines)

    # -- what simulated memory, sockets and clocks call ---------------------------------------

    def point(self) -> None:
        """Let another task go on here, or the environment act."""
        task = self._running
        if task is None:
            return
        steps = self.steps
        if steps >= self._end:
            self._over()
        self.steps = steps + 1
        version = self.version
        if task.seen < 0:
            task.seen = version
        menu = self._menu
        if menu is None or (self._stirred and self._asleep):
            following = self._next(0)
        else:
            # Nearly always: the first round of `_next`, without its calls.
            acts = self._offers() if self._offers else None
            options = menu.beside(len(acts)) if acts else menu.options
            if len(options) < 2:
                return
            choices = self.choices
            place = len(choices)
            if place >= self._scripted:
                if self._states is not None and self._states.meets(self._state(0)):
                    self._meet()
                choices.append(0)
                if self._offered is not None:
                    self._offered.append(options)
                return
            if self._given and not self._given[place]:
                choices.append(0)
                return
            taken = self._choose(options)
            if not taken:
                return
            if taken < len(menu.tasks):
                following = self._tasks[menu.tasks[taken]]
            else:
                self._act((acts or ())[taken - len(menu.tasks)])
                following = self._next(0)
        if following is not task:
            self._switch(following)

    def access(self, at: int, end: int, writes: bool) -> None:
        """Take a point before the running task reads or writes bytes that others may see."""
        self.saw((at, end, writes))
        self.point()
        if self._accesses is not None and self._running is not None:
            who = self._running.name
            self._accesses.append((len(self.choices), who, at, end, writes))

    def moved(self) -> None:
        """Record a change that other tasks can see."""
        self.version += 1
        self._ticks = 0
        self._stirred = True

    def stored(self) -> None:
        """Record a change of memory, for which spinning tasks wake: no other task waits for it."""
        self.version += 1
        self._ticks = 0
        if self._spinning:
            self._stirred = True

    def stale(self) -> None:
        """Record that the running task saw an outdated value."""
        if self._running is not None:
            self._running.stale = True

    def decide(self, count: int, label: Callable[[int], str]) -> int:
        """Choose one of ``count`` ways."""
        if self._how is not None:
            raise Abort
        if count < 2 or self._running is None:
            return 0
        taken = self._choose(values(count), 2)
        self.saw(taken)
        if self.recording and taken:
            self.note(label(taken))
        return taken

    def saw(self, value: object) -> None:
        """Record a value that the running task has seen, or what it has done: it is elsewhere now.

        What a task does next follows from all of these; two tasks that have seen and done the same
        are in the same state.
        """
        task = self._running
        if task is not None:
            task.observed = hash((task.observed, value))
            task.look = hash((task.look, value))

    def spin(self, label: str = "a change") -> None:
        """Look again at once, unless no visible change has come since the last look."""
        task = self._running
        if task is None:
            return
        if self._how is not None:
            raise Abort
        self.saw(label)
        before, last = task.spun
        if task.look == last:
            task.observed = before  # one look more that showed the same: the task is where it was
        task.spun, task.look = (task.observed, task.look), 0
        if task.seen == self.version and not task.stale:
            task.ready, task.deadline = None, None
            self._sleep(task, label)
        else:
            self._look_again(task)
        task.seen = -1
        task.stale = False

    def wait(self, ready: Callable[[], bool], seconds: float | None, label: str) -> bool:
        """Sleep until ready, or for that long; return whether it is ready."""
        task = self._running
        if task is None:
            return ready()
        deadline = None if seconds is None else self.now + max(0.0, seconds)
        self.saw(label)
        self.point()
        while not ready():
            if deadline is not None and self.now >= deadline:
                self.saw(False)
                return False
            task.ready, task.deadline = ready, deadline
            self._sleep(task, label)
        self.saw(True)
        return True

    def progress(self) -> None:
        """Record that the running task has completed an operation."""
        if self._running is not None:
            self._progressed[self._running.name] = self.steps

    def note(self, text: str) -> None:
        """Record an event of the running task."""
        if self.recording:
            self._lines.append(EventLine(self.current, text, len(self.choices)))

    # -- whose turn it is ---------------------------------------------------------------------

    def _next(self, kind: int = 1) -> _Task | None:
        """Return the next task, after any actions of the environment; None if the run is over.

        Args:
            kind: 0 at a point of the running task, which could go on; 1 where it cannot.
        """
        while True:
            if self._stirred and self._asleep:
                self._wake()
            menu = self._menu
            if menu is None:
                menu = self._menu = self._new_menu()
            tasks, options = menu.tasks, menu.options
            acts = self._offers() if self._offers else None
            if acts:
                waits = self._late and not tasks and self._may_wait()
                if waits:
                    acts = [*acts, _Passing(self)]
                options = menu.beside(len(acts), waits)
            elif not tasks:
                if not self._pass_time():
                    return None
                continue
            taken = self._choose(options, kind) if len(options) > 1 else 0
            if taken < len(tasks):
                return self._tasks[tasks[taken]]
            self._act((acts or ())[taken - len(tasks)])

    def _act(self, act: Action) -> None:
        if self.recording:
            self._lines.append(EventLine("-", act.label, len(self.choices)))
        act.apply()

    def _choose(self, options: Sequence[Option], kind: int = 1) -> int:
        """Choose one of at least two options; the choice becomes part of the schedule."""
        if len(self.choices) >= self._scripted:
            taken = 0
            if self._states is not None and self._states.meets(self._state(kind)):
                self._meet()
            if self._offered is not None:
                self._offered.append(options)
        else:
            taken = self._given[len(self.choices)] if self._given else self._pick(options)
            if not 0 <= taken < len(options):
                raise self._diverge(taken, len(options))
        self.choices.append(taken)
        return taken

    def _state(self, kind: int) -> int:
        """Return a hash of all that decides how the run goes on, by the default choices or others.

        Args:
            kind: sort of the choice that is to be taken: at a point, between tasks, of a value.
        """
        running, version = self._running, self.version
        parts: list[object] = [
            kind,
            -1 if running is None else running.index,
            self._can,
            self._ticks,
            self.now,
            self.shared and self.shared(),
        ]
        for task in self._tasks:
            fresh = 0 if task.seen < 0 else 1 if task.seen == version else 2
            told = task.observed, task.look, *task.spun
            parts.append((told, fresh, task.stale, task.looks, task.deadline))
        return hash(tuple(parts))

    def _meet(self) -> None:
        """End the run: what follows from here has been played."""
        self._stop("met")
        raise Abort

    def _acts(self) -> Sequence[Action]:
        """Return the actions that the environment offers now, if they have several parts."""
        acts = [act for source in self._sources for act in source.actions()]
        if self._early and self._can and any(task.deadline is not None for task in self._asleep):
            acts.append(_Passing(self))
        return acts

    def _new_menu(self) -> ChoiceSet:
        running = self._running
        key = self._can if running is None else self._can | 1 << len(self._tasks) + running.index
        menu = self._menus.get(key)
        if menu is None:
            names = [task.name for task in self._tasks]
            menu = self._menus[key] = ChoiceSet(
                names, self._can, running.index if running else None
            )
        return menu

    def _allow(self, task: _Task, can: bool) -> None:
        bit = 1 << task.index
        self._can = self._can | bit if can else self._can & ~bit
        self._menu = None

    def _run(self, task: _Task | None) -> None:
        """Set the running task."""
        self._running, self._menu = task, None
        if task is None:
            self.current = "-"
        else:
            self.current = task.name
            task.turn = self.steps

    def _diverge(self, taken: int, count: int) -> Abort:
        """Abort the run; ``run`` raises the reason, past all that tasks may catch."""
        what = f"choice {len(self.choices)} is {taken} of {count}"
        self._error = Diverged(f"the schedule does not fit this run: {what}")
        self._stop("done")
        return Abort()

    def _switch(self, following: _Task | None) -> None:
        """Switch to another task; return when this one is resumed."""
        task = self._running
        if following is None:
            raise Abort
        self._run(following)
        following.let.switch()
        self._run(task)
        if self._how is not None:
            raise Abort

    def _reap(self) -> None:
        """Remove the task that ran last, whose end has brought control back to the hub."""
        task = self._running
        self._run(None)
        if task is None:
            return
        self._allow(task, False)
        self.version += 1
        self._stirred = True
        if task.error is not None and self._how is None:
            self._stop("done")
            self._abort_all()
            raise task.error

    def _sleep(self, task: _Task, label: str) -> None:
        task.label = label
        self._allow(task, False)
        self._asleep.append(task)
        self._spinning += task.ready is None
        self._stirred = False
        following = self._next()
        if following is not task:
            self._switch(following)

    def _look_again(self, task: _Task) -> None:
        """Take a point; a task that keeps changing what it waits for lets others run at times."""
        task.looks += 1
        if task.looks < _LOOKS or not self._can & ~(1 << task.index):
            self.point()
            return
        task.looks = 0
        self._allow(task, False)
        following = self._next()
        self._allow(task, True)
        self._switch(following)

    def _wake(self) -> None:
        """Wake the sleeping tasks whose condition may have become true."""
        self._stirred = False
        for task in list(self._asleep):
            if task.ready is None or task.ready():
                self._wake_task(task)

    def _wake_task(self, task: _Task) -> None:
        self._asleep.remove(task)
        self._spinning -= task.ready is None
        task.label = ""
        self._allow(task, True)

    # -- time ---------------------------------------------------------------------------------

    def _pass_time(self) -> bool:
        """Move the clock to the next deadline while no task can run; False if there is none."""
        due = [task.deadline for task in self._asleep if task.deadline is not None]
        if due:
            self.pass_to(min(due))
            return True
        spinning = [task for task in self._asleep if task.ready is None]
        if spinning and self._ticks < len(_TICKS):
            self.now += _TICKS[self._ticks]
            self._ticks += 1
            for task in spinning:
                self._wake_task(task)
            return True
        self._stop("deadlock")
        return False

    def _may_wait(self) -> bool:
        """Return whether time can pass before the environment has done all that is left to do."""
        if not any(task.deadline is not None for task in self._asleep):
            return False
        return not any(s.actions() for s in self._sources if not getattr(s, "lasting", False))

    def pass_to(self, when: float) -> None:
        """Move the clock on, and wake the tasks whose deadline has passed."""
        self.now = max(self.now, when)
        self.version += 1
        self._stirred = True
        for task in list(self._asleep):
            if task.deadline is not None and task.deadline <= self.now:
                self._wake_task(task)

    # -- the end ------------------------------------------------------------------------------

    def _over(self) -> None:
        """End a point of a run that is over, or that has reached the limit now."""
        if self._how is not None:
            raise Abort
        self.steps += 1
        self._exhausted()

    def _exhausted(self) -> None:
        """Report, at the limit, the starved task, or that no task completed an operation."""
        for task in self._tasks:
            passed_over = self._can >> task.index & 1 and task is not self._running
            if passed_over and task.turn < self._limit // 2:
                self._error = Unfair(f"{self.current} loops without ever yielding to {task.name}")
                self._stop("livelock")
                raise Abort
        recent = [name for name, at in self._progressed.items() if at > self._limit // 2]
        self._stop("starvation" if recent else "livelock")
        raise Abort

    def _stop(self, how: How) -> None:
        """End the run; unfinished tasks are listed with the longest starved first."""
        self._how, self._end = how, -1
        unfinished = [task for task in self._tasks if not task.let.dead]
        unfinished.sort(key=lambda task: self._progressed.get(task.name, 0))
        self._waiting = {task.name: task.label or "its turn" for task in unfinished}

    def _abort_all(self) -> None:
        """Abort the remaining tasks; ``point`` raises again when they call it on their way out."""
        for task in self._tasks:
            self._run(task)
            for _ in range(_THROWS):
                if task.let.dead:
                    break
                with contextlib.suppress(Abort):  # comes through from one that had not begun
                    task.let.throw(Abort)
        self._run(None)


class _Passing:
    """Action that moves the clock on although a task could still run."""

    def __init__(self, world: Scheduler) -> None:
        self._world = world

    @property
    def label(self) -> str:
        """The time it moves to, in words."""
        return f"time passes to {self._due():.3f} s"

    def apply(self) -> None:
        """Move the clock to the next deadline."""
        self._world.hurried.append((self._world.now, self._due()))
        self._world.pass_to(self._due())

    def _due(self) -> float:
        asleep = self._world._asleep  # pyright: ignore[reportPrivateUsage]  # its own part
        return min(task.deadline for task in asleep if task.deadline is not None)
