"""Searches the schedules of a play in a simulated world: runs where the target is loaded.

The search is called in a process of its own, forked from one that has imported the target, since
giving a target simulated memory rebinds its globals.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Generator
from typing import Literal, cast

import msgspec

from killpoint.errors import CannotWork
from killpoint.interfaces import Diverged, Search
from killpoint.scenario import MemoryModel
from killpoint.search.parallel_search import SearchProcesses
from killpoint.search.rewindable_run import NotRewindable, Play, RewindableRun, VerifiedRun
from killpoint.search.schedules.delays import Delays
from killpoint.search.schedules.exploration import Found, Searched, explore
from killpoint.search.schedules.pct import PCT
from killpoint.search.schedules.preemptions import Preemptions
from killpoint.search.schedules.random_walk import RandomWalk
from killpoint.search.schedules.reduction import Reduction
from killpoint.search.schedules.replay import FixedSchedule, Replay
from killpoint.search.schedules.shrink import shrink
from killpoint.search.schedules.states import NotReducible
from killpoint.simulation.ending import Ending
from killpoint.simulation.environment import SimulatedEnvironment
from killpoint.simulation.sockets.socket_library import Sockets
from killpoint.targets.protocol import HasPoints, Simulates, Target
from killpoint.verdict import Violation

LANE = 10
"""Columns of a schedule's line that say who did it."""
Way = Literal["preemptions", "delays", "pct", "random", "replay"]


class Ask(msgspec.Struct, frozen=True, omit_defaults=True):
    """One search to be made."""

    way: Way
    bound: int = 2
    """Bound of preemptions or delays; the depth for PCT."""
    cap: int = 5_000
    """Schedules at most; the number of runs for PCT and random walks."""
    schedule: list[int] = []
    """The choices, for a replay."""


class SearchCall(msgspec.Struct, frozen=True):
    """Play, the memory model to play it on, and the searches over its schedules."""

    play: Play
    memory: MemoryModel
    asks: list[Ask]
    seed: int = 0
    shrinking: float = 3.0
    """Seconds for making a bad schedule simpler."""
    processes: int = 1
    """Number of processes among which a search is divided."""


class Explored(msgspec.Struct):
    """Result of the searches."""

    searches: list[Searched]
    violation: Violation | None = None
    schedule: list[int] = []
    """The choices of the bad run, simplified."""
    lines: list[str] = []
    """Lines of the bad run, for people: which task did what, and which values were seen."""
    first: int = 0
    """Number of schedules it took to find the violation."""
    doubt: str = ""
    """Reason why a violation is not to be believed: it did not replay."""
    error: str = ""
    """Reason why the harness could not do its work."""


def answer(target: Target, data: bytes) -> bytes:
    """Carry out a call; both are msgpack."""
    call = msgspec.msgpack.decode(data, type=SearchCall)
    try:
        explored = carry_out(target, call)
    except CannotWork as error:
        explored = Explored([], error=str(error))
    except Diverged as error:
        explored = Explored([], doubt=str(error))
    return msgspec.msgpack.encode(explored)


def carry_out(target: Target, call: SearchCall) -> Explored:
    """Search, prove, simplify.

    Raises:
        CannotWork: the target cannot be played so.
    """
    rewinding = reduces = True
    while True:
        try:
            return _carry_out(target, call, rewinding=rewinding, reduces=reduces)
        except NotReducible:
            reduces = False
        except NotRewindable:
            if not rewinding:
                raise
            rewinding = False


def _carry_out(target: Target, call: SearchCall, *, rewinding: bool, reduces: bool) -> Explored:
    def playing() -> contextlib.AbstractContextManager[VerifiedRun]:
        return _played(target, call, rewinding=rewinding)

    if call.processes > 1:
        search_processes = SearchProcesses(
            call.processes, playing, lambda ask, part: _search(call, ask, part, reduces)
        )
        with contextlib.closing(search_processes):
            explored, found = _searched(call, search_processes.explore)
            explored.doubt = search_processes.doubt
        if found is None:
            return explored
        with playing() as proven:
            _simplify(explored, proven.play, found, call)
        return explored
    with playing() as proven:
        explored, found = _searched(
            call, lambda ask, cap: explore(_search(call, ask, (0, 1), reduces), proven, cap)
        )
        explored.doubt = proven.doubt
        if found is not None:
            _simplify(explored, proven.play, found, call)
    return explored


@contextlib.contextmanager
def _played(target: Target, call: SearchCall, *, rewinding: bool) -> Generator[VerifiedRun]:
    """The play, in the target's own code, once that has filled what it keeps for good."""
    sockets = Sockets if call.play.sockets else None
    around = SimulatedEnvironment(call.memory, sockets, threads=call.play.threads)
    if isinstance(target, HasPoints):
        around.is_own = target.is_own_code
    with _unheard(), cast("Simulates", target).simulated(around) as box:
        play = RewindableRun(box, around, call.play, rewinding=rewinding)
        play.fresh(FixedSchedule(()))
        yield VerifiedRun(play)


def _searched(
    call: SearchCall, search: Callable[[Ask, int], tuple[Searched, Found | None]]
) -> tuple[Explored, Found | None]:
    """One search after another, up to the first that finds something."""
    explored = Explored([])
    for ask in call.asks:
        searched, found = search(ask, ask.cap)
        explored.searches.append(searched)
        if found is not None:
            explored.first = sum(each.schedules for each in explored.searches)
            return explored, found
    return explored, None


@contextlib.contextmanager
def _unheard() -> Generator[None]:
    """Until left, nothing is logged: in thousands of runs a target says the same each time."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def search_of(
    ask: Ask, seed: int, part: tuple[int, int] = (0, 1), reduction: Reduction | None = None
) -> Search:
    """The search that is asked for, or a part of it; a bounded one is reduced if that is given."""
    match ask.way:
        case "preemptions":
            return Preemptions(
                ask.bound,
                seed,
                first=part[0] == 0,
                reduction=reduction,
            )
        case "delays":
            return Delays(
                ask.bound,
                seed,
                first=part[0] == 0,
                reduction=reduction,
            )
        case "pct":
            return PCT(ask.cap, ask.bound, seed, part)
        case "random":
            return RandomWalk(ask.cap, seed=seed, part=part)
        case "replay":
            return Replay(ask.schedule)


def _search(call: SearchCall, ask: Ask, part: tuple[int, int], reduces: bool) -> Search:
    """Return the search, reduced where tasks share nothing but simulated memory."""
    play = call.play
    if not (reduces and play.reducible):
        return search_of(ask, call.seed, part)
    by_turns = call.memory == "sequential" and play.shape.readers == 1
    least = 1 if ask.way == "delays" else 0
    return search_of(ask, call.seed, part, Reduction(by_turns=by_turns, least=least))


def _simplify(explored: Explored, play: RewindableRun, found: Found, call: SearchCall) -> None:
    explored.doubt = ""
    if call.asks[0].way != "replay":
        found = shrink(play, found, call.shrinking)
    ending, violation = play.fresh(FixedSchedule(found.choices), recording=True)
    if violation is None:
        explored.doubt = f"{found.violation.cause}; but the same schedule, written down, held"
    explored.violation, explored.schedule = violation, found.choices
    explored.lines = readable(ending)


def readable(ending: Ending) -> list[str]:
    """Return the schedule, a line for each event; repeated reads in vain are shown once."""
    lines = [f"{line.lane:{LANE - 1}} {line.text}" for line in ending.lines]
    told: list[str] = []
    for line in lines:
        if "reads" not in line or line not in told[-3:]:
            told.append(line)
    return told
