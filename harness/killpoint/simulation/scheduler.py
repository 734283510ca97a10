"""A world of one process: its tasks are greenlets, and a chooser says at each point who goes on.

Everything that could go one way or another goes through its ``chooser``, so the list of
choices is the schedule.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import greenlet

from killpoint.errors import CannotWork
from killpoint.interfaces import Action, Chooser, Diverged, Option, Script, Source
from killpoint.simulation.choice_sets import Menu, Menus, menus_of, values
from killpoint.simulation.ending import Ending, How, Line
from killpoint.simulation.thread_tasks import Threadlet, getcurrent

STEP_LIMIT = 20_000
_TICKS = (0.01, 1.0, 100.0)
"""How far the clock jumps for tasks that spin when nobody can go on; then it is a deadlock."""
_LOOKS = 4
"""As often a task may look again at once although it, or somebody, keeps changing things."""
_THROWS = 50
"""How often a task that is broken off may swallow it."""

_GREENLETS = greenlet.greenlet, greenlet.getcurrent
_THREADS = Threadlet, getcurrent

_NEVER = sys.maxsize


class Abort(BaseException):
    """Thrown into a task whose run is over: it may hold a ``finally``, nothing more."""


class Unfair(CannotWork):
    """A task looped without a yield, a spin or a wait, while others could have gone on.

    On a machine they would have: nothing can be said of such a run.
    """


class _Task:
    """A task, and what it is doing when it does not run."""

    __slots__ = (
        "deadline",
        "error",
        "index",
        "label",
        "let",
        "looks",
        "name",
        "ready",
        "seen",
        "stale",
        "turn",
    )

    def __init__(self, index: int, name: str, let: Any) -> None:
        self.index, self.name, self.let = index, name, let
        self.seen = -1
        """The version at its first point since it last spun; -1: none."""
        self.stale = False
        self.looks = 0
        """Spins that were no rest."""
        self.label = ""
        """What it waits for, empty if it can run."""
        self.ready: Callable[[], bool] | None = None
        """What makes it go on; None: any change."""
        self.deadline: float | None = None
        self.error: BaseException | None = None
        self.turn = 0
        """The step at which it was last given the turn."""


class World:
    """One run. Add tasks, ``run`` once, throw away (or put it back as it was, and ``follow``).

    Args:
        chooser: asked wherever there is more than one way.
        limit: steps after which the run is broken off.
        recording: whether to write down what happens.
        early: whether a wait may end by its time although others could still run (a choice).
        late: whether time may pass while something is on its way (a choice; ``Source.lasting``).
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
        self.follow(chooser)
        self.recording = recording
        self.hurried: list[tuple[float, float]] = []
        """When the clock went on by choice: from, to."""
        self.now = 0.0
        self.steps = 0
        self.version = 0
        """Counts what others could see change."""
        self._limit = self._end = limit
        self._early = early
        self._late = late
        self._tasks: list[_Task] = []
        self._running: _Task | None = None
        self.current = "-"
        """The name of the running task; ``-`` outside of all."""
        self._menu: Menu | None = None
        """What there is to choose from among tasks; None: it has changed."""
        self._can = 0
        """A bit for each task that can run."""
        self._asleep: list[_Task] = []
        self._spinning = 0
        """How many of them any change wakes."""
        self._stirred = False
        """Whether something has changed since they were looked at that may wake one."""
        self._sources: list[Source] = []
        self._offers: Callable[[], Sequence[Action]] | None = self._acts if early else None
        """What the surroundings may do now; None: never anything."""
        self._menus: Menus = {}
        self._how: How | None = None
        self._waiting: dict[str, str] = {}
        self._error: Exception | None = None
        """Why the run says nothing."""
        self._ticks = 0
        self._progressed: dict[str, int] = {}
        self._lines: list[Line] = []

    # -- what a stage calls -----------------------------------------------------------------

    def follow(self, chooser: Chooser) -> None:
        """Ask this one: before the run, in which a world that was put back does not go on."""
        self.choices: list[int] = []
        self._pick = chooser.choose
        script = chooser if isinstance(chooser, Script) else None
        self._given = script.prefix if script else ()
        """Choices that are known without asking."""
        self._scripted = len(script.prefix) if script else _NEVER
        """From how many choices on the default is taken, without asking either."""
        self._offered = script.seen if script else None
        self._hub = self._lets[1]()

    def task(self, name: str, run: Callable[[], Any]) -> None:
        """A further task; the first one runs first."""

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
        """A further part of the surroundings."""
        self._sources.append(source)
        one = len(self._sources) == 1 and not self._early
        self._offers = source.actions if one else self._acts

    def run(self) -> Ending:
        """Run to the end, whichever it is.

        Raises:
            Diverged: the schedule does not fit.
            Unfair: a task loops and never yields.
            Exception: what a task raised and did not handle.
        """
        self._hub = self._lets[1]()
        with contextlib.suppress(Abort):
            while self._how is None:
                if all(task.let.dead for task in self._tasks):
                    self._stop("done")
                    break
                task = self._next()
                if task is not None:
                    self._run(task)
                    task.let.switch()
                    self._bury()
        self._unwind()
        if self._error is not None:
            raise self._error
        how = self._how or "done"
        return Ending(how, self.choices, self.steps, self.now, self._waiting, self._lines)

    # -- what simulated memory, sockets and clocks call ---------------------------------------

    def point(self) -> None:
        """Another task may go on here, or the surroundings act."""
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
            following = self._next()
        else:
            # Nearly always: the first round of `_next`, without its calls.
            acts = self._offers() if self._offers else None
            options = menu.beside(len(acts)) if acts else menu.options
            if len(options) < 2:
                return
            choices = self.choices
            place = len(choices)
            if place >= self._scripted:
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
                following = self._next()
        if following is not task:
            self._switch(following)

    def moved(self) -> None:
        """Something changed that others can see."""
        self.version += 1
        self._ticks = 0
        self._stirred = True

    def stored(self) -> None:
        """Memory changed: who spins looks again, but nobody waits for memory."""
        self.version += 1
        self._ticks = 0
        if self._spinning:
            self._stirred = True

    def stale(self) -> None:
        """The running task saw something old."""
        if self._running is not None:
            self._running.stale = True

    def decide(self, count: int, label: Callable[[int], str]) -> int:
        """One of ``count`` ways."""
        if self._how is not None:
            raise Abort
        if count < 2 or self._running is None:
            return 0
        taken = self._choose(values(count))
        if self.recording and taken:
            self.note(label(taken))
        return taken

    def spin(self, label: str = "a change") -> None:
        """Look again at once, unless nothing that could be seen has changed since the last look."""
        task = self._running
        if task is None:
            return
        if self._how is not None:
            raise Abort
        if task.seen == self.version and not task.stale:
            task.ready, task.deadline = None, None
            self._sleep(task, label)
        else:
            self._look_again(task)
        task.seen = -1
        task.stale = False

    def wait(self, ready: Callable[[], bool], seconds: float | None, label: str) -> bool:
        """Sleep until ready, or for that long."""
        task = self._running
        if task is None:
            return ready()
        deadline = None if seconds is None else self.now + max(0.0, seconds)
        self.point()
        while not ready():
            if deadline is not None and self.now >= deadline:
                return False
            task.ready, task.deadline = ready, deadline
            self._sleep(task, label)
        return True

    def progress(self) -> None:
        """The running task has completed an operation."""
        if self._running is not None:
            self._progressed[self._running.name] = self.steps

    def note(self, text: str) -> None:
        """Write down what the running task did."""
        if self.recording:
            self._lines.append(Line(self.current, text, len(self.choices)))

    # -- whose turn it is ---------------------------------------------------------------------

    def _next(self) -> _Task | None:
        """Who goes on, after whatever the surroundings do first; None: nobody, it is over."""
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
            taken = self._choose(options) if len(options) > 1 else 0
            if taken < len(tasks):
                return self._tasks[tasks[taken]]
            self._act((acts or ())[taken - len(tasks)])

    def _act(self, act: Action) -> None:
        if self.recording:
            self._lines.append(Line("-", act.label, len(self.choices)))
        act.apply()

    def _choose(self, options: Sequence[Option]) -> int:
        """One of at least two, which becomes part of the schedule."""
        if len(self.choices) >= self._scripted:
            taken = 0
            if self._offered is not None:
                self._offered.append(options)
        else:
            taken = self._given[len(self.choices)] if self._given else self._pick(options)
            if not 0 <= taken < len(options):
                raise self._diverge(taken, len(options))
        self.choices.append(taken)
        return taken

    def _acts(self) -> Sequence[Action]:
        """What the surroundings may do now, if they have several parts."""
        acts = [act for source in self._sources for act in source.actions()]
        if self._early and self._can and any(task.deadline is not None for task in self._asleep):
            acts.append(_Passing(self))
        return acts

    def _new_menu(self) -> Menu:
        running = self._running
        key = self._can if running is None else self._can | 1 << len(self._tasks) + running.index
        menu = self._menus.get(key)
        if menu is None:
            names = [task.name for task in self._tasks]
            menu = self._menus[key] = Menu(names, self._can, running.index if running else None)
        return menu

    def _allow(self, task: _Task, can: bool) -> None:
        bit = 1 << task.index
        self._can = self._can | bit if can else self._can & ~bit
        self._menu = None

    def _run(self, task: _Task | None) -> None:
        """Who runs from now on."""
        self._running, self._menu = task, None
        if task is None:
            self.current = "-"
        else:
            self.current = task.name
            task.turn = self.steps

    def _diverge(self, taken: int, count: int) -> Abort:
        """The run is broken off; ``run`` raises why, past all that tasks may catch."""
        what = f"choice {len(self.choices)} is {taken} of {count}"
        self._error = Diverged(f"the schedule does not fit this run: {what}")
        self._stop("done")
        return Abort()

    def _switch(self, following: _Task | None) -> None:
        """Leave the running task; returns when it is resumed."""
        task = self._running
        if following is None:
            raise Abort
        self._run(following)
        following.let.switch()
        self._run(task)
        if self._how is not None:
            raise Abort

    def _bury(self) -> None:
        """The hub is back, because a task has ended: the one that ran last."""
        task = self._running
        self._run(None)
        if task is None:
            return
        self._allow(task, False)
        self.version += 1
        self._stirred = True
        if task.error is not None and self._how is None:
            self._stop("done")
            self._unwind()
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
        """A point; but who keeps changing what it waits for lets others run now and then."""
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
        """Let those look again who wait for what may have come."""
        self._stirred = False
        for task in list(self._asleep):
            if task.ready is None or task.ready():
                self._rouse(task)

    def _rouse(self, task: _Task) -> None:
        self._asleep.remove(task)
        self._spinning -= task.ready is None
        task.label = ""
        self._allow(task, True)

    # -- time ---------------------------------------------------------------------------------

    def _pass_time(self) -> bool:
        """Nobody can run: the clock goes on to what is due next; False if nothing is."""
        due = [task.deadline for task in self._asleep if task.deadline is not None]
        if due:
            self.pass_to(min(due))
            return True
        spinning = [task for task in self._asleep if task.ready is None]
        if spinning and self._ticks < len(_TICKS):
            self.now += _TICKS[self._ticks]
            self._ticks += 1
            for task in spinning:
                self._rouse(task)
            return True
        self._stop("deadlock")
        return False

    def _may_wait(self) -> bool:
        """Whether time can pass before the surroundings have done what they have left to do."""
        if not any(task.deadline is not None for task in self._asleep):
            return False
        return not any(s.actions() for s in self._sources if not getattr(s, "lasting", False))

    def pass_to(self, when: float) -> None:
        """Move the clock on, and wake who waited for no longer than that."""
        self.now = max(self.now, when)
        self.version += 1
        self._stirred = True
        for task in list(self._asleep):
            if task.deadline is not None and task.deadline <= self.now:
                self._rouse(task)

    # -- the end ------------------------------------------------------------------------------

    def _over(self) -> None:
        """At a point of a run that has ended, or that has come to the limit now."""
        if self._how is not None:
            raise Abort
        self.steps += 1
        self._exhausted()

    def _exhausted(self) -> None:
        """The limit: tell who was starved, or that nobody got anything done."""
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
        """The run is over; who was not done is told with those first who starved the longest."""
        self._how, self._end = how, -1
        unfinished = [task for task in self._tasks if not task.let.dead]
        unfinished.sort(key=lambda task: self._progressed.get(task.name, 0))
        self._waiting = {task.name: task.label or "its turn" for task in unfinished}

    def _unwind(self) -> None:
        """Break off what still runs; ``point`` raises again in whatever it does on its way out."""
        for task in self._tasks:
            self._run(task)
            for _ in range(_THROWS):
                if task.let.dead:
                    break
                with contextlib.suppress(Abort):  # comes through from one that had not begun
                    task.let.throw(Abort)
        self._run(None)


class _Passing:
    """The clock goes on although somebody could still run."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def label(self) -> str:
        """Until when."""
        return f"time passes to {self._due():.3f} s"

    def apply(self) -> None:
        """To the next thing that is due."""
        self._world.hurried.append((self._world.now, self._due()))
        self._world.pass_to(self._due())

    def _due(self) -> float:
        asleep = self._world._asleep  # pyright: ignore[reportPrivateUsage]  # its own part
        return min(task.deadline for task in asleep if task.deadline is not None)
