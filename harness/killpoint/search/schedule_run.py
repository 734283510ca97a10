"""The run of a simulated case: its schedules are searched where the target is loaded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import msgspec

from killpoint.checkers.finding import Finding
from killpoint.scenario import Pause, Receive, Scenario, Send, Simulated
from killpoint.search.case_run import CaseRun
from killpoint.search.rewindable_run import Play
from killpoint.search.simulated import LANE, Ask, Explored, SearchCall
from killpoint.simulation.memory import MODELS, WEAK
from killpoint.simulation.programs.delivery import WRONG, Delivery
from killpoint.simulation.programs.shared_end import Sharing
from killpoint.simulation.programs.wake_up import Waking

_WHERE = "killpoint.search.simulated:answer"
_WITHIN = 900.0
_DECODER = msgspec.msgpack.Decoder(Explored)  # made once: see killpoint.scenario.file
PROCESSES = 8
"""Among so many a search is divided at most."""
_SHOWN = 14


def search(case_run: CaseRun, scenario: Scenario, asks: Sequence[Ask]) -> Explored:
    """Search the schedules of a scenario that is to be simulated, one search after another.

    Raises:
        Violated: a schedule broke the invariant, and did so again when it was replayed.
        Unsupported: nothing can be simulated here.
    """
    simulated = scenario.simulated or Simulated()
    several = 1 if asks[0].way == "replay" else min(PROCESSES, len(os.sched_getaffinity(0)))
    search_call = SearchCall(
        play_of(scenario), simulated.memory, list(asks), case_run.seed, processes=several
    )
    answer = case_run.call(_WHERE, msgspec.msgpack.encode(search_call), _WITHIN)
    explored = _DECODER.decode(answer)
    if explored.error:
        case_run.inconclusive(f"it could not be simulated: {explored.error}", by_harness=True)
        return explored
    schedules = sum(each.schedules for each in explored.searches)
    case_run.count(Finding([], {"schedules": schedules}))
    case_run.outcome.searched += _told(scenario, simulated, explored)
    if explored.doubt:
        case_run.inconclusive(explored.doubt)
    if explored.violation is not None:
        _convict(case_run, scenario, simulated, explored)
    return explored


def play_one(case_run: CaseRun, scenario: Scenario, schedule: list[int]) -> None:
    """Play the one schedule that a replay file has kept.

    Raises:
        Violated: as :func:`search`.
    """
    search(case_run, scenario, [Ask("replay", schedule=schedule)])


def play_of(scenario: Scenario) -> Play:
    """Return the play in a simulated world: threads on one end, pauses, or plain delivery."""
    simulated = scenario.simulated or Simulated()
    for step in scenario.steps:
        if isinstance(step, Send | Receive) and step.threads > 1:
            count = messages_of(scenario) // step.threads
            return Sharing(scenario.shape, count, "send" if isinstance(step, Send) else "receive")
    if simulated.late or any(isinstance(step, Pause) for step in scenario.steps):
        return Waking(scenario.shape, list(_pauses(scenario)), simulated.late)
    return Delivery(scenario.shape, messages_of(scenario), simulated.first)


def _pauses(scenario: Scenario) -> Iterator[float]:
    """Yield the seconds that the writer pauses before each message."""
    pause = 0.0
    for step in scenario.steps:
        if isinstance(step, Pause):
            pause = step.seconds
        elif isinstance(step, Send):
            for _ in range(sum(message.repeat for message in step.messages)):
                yield pause
                pause = 0.0


def messages_of(scenario: Scenario) -> int:
    """Return the number of messages that the writer sends."""
    sends = [step for step in scenario.steps if isinstance(step, Send)]
    return sum(message.repeat for step in sends for message in step.messages)


def _told(scenario: Scenario, simulated: Simulated, explored: Explored) -> list[str]:
    """Return how far each search came, and on which shape."""
    shape, messages = scenario.shape, _some(messages_of(scenario), "message")
    what = f"{_some(shape.readers, 'reader')}, {_some(shape.chunks, 'slot')}, {messages}"
    seconds = sum(each.seconds for each in explored.searches)
    count = sum(each.schedules for each in explored.searches)
    rate = f", {count / seconds:.0f}/s" if seconds else ""
    searches = " + ".join(str(each) for each in explored.searches)
    return [f"{simulated.memory}, {what}: {searches}{rate}"]


def _up_to_the_wrong(lines: list[str]) -> list[str]:
    """Return the lines up to the first that went wrong."""
    for place, line in enumerate(lines):
        if WRONG in line or line[LANE:].startswith("raises "):
            return lines[: place + 1]
    return lines


def _some(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _convict(
    case_run: CaseRun, scenario: Scenario, simulated: Simulated, explored: Explored
) -> None:
    assert explored.violation is not None
    model = MODELS[simulated.memory].title
    only = "model only: " if simulated.memory in WEAK else ""
    cause = f"{only}with {model}, {explored.violation.cause}"
    found = msgspec.structs.replace(
        explored.violation, cause=cause, evidence=_up_to_the_wrong(explored.lines)[-_SHOWN:]
    )
    kept = msgspec.structs.replace(simulated, schedule=explored.schedule)
    text = case_run.kept.replay_of(msgspec.structs.replace(scenario, simulated=kept), cause)
    told = ["what happened:", *explored.lines]
    comments = "".join(f"# {line}".rstrip() + "\n" for line in told)
    case_run.fail(found, case_run.kept.text(f"{text}\n{comments}", case_run.outcome.id))
