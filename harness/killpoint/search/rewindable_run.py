"""Runs of a play, one after another, in a world that is put back as it was, or made anew.

Put back, a run costs half as much. That it is the same run is not taken on trust: again and again
one is played a second time in a world made anew, choice by choice.
"""

from __future__ import annotations

from typing import Any

from killpoint.interfaces import Chooser, Diverged
from killpoint.search.schedules.replay import FixedSchedule
from killpoint.simulation.ending import Ending
from killpoint.simulation.environment import SimulatedEnvironment
from killpoint.simulation.programs.delivery import Delivery
from killpoint.simulation.programs.shared_end import Sharing
from killpoint.simulation.programs.wake_up import Waking
from killpoint.simulation.snapshot import Earlier, Snapshot, Unkept
from killpoint.targets.protocol import BlackBox
from killpoint.verdict import Violation

Play = Delivery | Waking | Sharing

_COMPARED = 100
"""One in so many runs is compared."""


class NotRewindable(Exception):
    """A run in a world that was put back was not as one in a world made anew."""


class RewindableRun:
    """Plays, and judges.

    Args:
        rewinding: whether worlds may be put back.
    """

    def __init__(
        self, box: BlackBox, around: SimulatedEnvironment, play: Play, *, rewinding: bool = True
    ) -> None:
        self._box, self._around, self._play = box, around, play
        self._rewinding = rewinding
        self._made: Any = None
        """Object that the tasks work on, and its state before them."""
        self._snapshot: Snapshot | None = None
        self._runs = 0

    def __call__(self, chooser: Chooser) -> tuple[Violation | None, list[int], int]:
        """One run, for a search.

        Raises:
            Unfaithful: it would not have been the same in a world made anew.
        """
        ending, violation = self._again(chooser) if self._rewinding else self.fresh(chooser)
        self._runs += 1
        if self._rewinding and self._runs % _COMPARED == 1 and ending.how != "met":
            self._compare(ending, violation)
        return violation, ending.choices, ending.steps

    def fresh(
        self, chooser: Chooser, *, recording: bool = False
    ) -> tuple[Ending, Violation | None]:
        """Run the play in a world made anew."""
        self._around.begin(chooser, recording=recording, late=self._play.late)
        return self._run(self._play.set_up(self._box, self._around))

    def suspect(self, choices: list[int]) -> None:
        """Check whether a violation that a world made anew did not show is the fault of rewinding.

        Raises:
            Unfaithful: it goes wrong in the world that was put back, and there only.
        """
        if self._rewinding and self._again(FixedSchedule(choices))[1] is not None:
            raise NotRewindable("it goes wrong in a world that was put back only")

    def _again(self, chooser: Chooser) -> tuple[Ending, Violation | None]:
        """Run the play in the world that was made for the first run."""
        if self._snapshot is None or not self._snapshot.restore():
            try:
                self._make()
            except Unkept:
                self._rewinding = False
                return self.fresh(chooser)
        self._around.world.follow(chooser)
        return self._run(self._made)

    def _make(self) -> None:
        earlier = Earlier()
        self._around.begin(FixedSchedule(()), late=self._play.late)
        self._made = self._play.set_up(self._box, self._around)
        self._snapshot = Snapshot([self._around, self._box, self._made], earlier)

    def _run(self, made: Any) -> tuple[Ending, Violation | None]:
        judge = self._play.begin(self._box, self._around, made)
        ending = self._around.world.run()
        return ending, None if ending.how == "met" else judge(ending)

    def _compare(self, ending: Ending, violation: Violation | None) -> None:
        try:
            other, judged = self.fresh(FixedSchedule(ending.choices))
        except Diverged as error:
            raise NotRewindable(str(error)) from error
        if (other, judged) != (ending, violation):
            raise NotRewindable(f"{ending}, {violation}; made anew: {other}, {judged}")


class VerifiedRun:
    """Plays; what goes wrong must go wrong again at once, in a world made anew.

    If it does not, the search goes on: something outside of the world had a part in it.
    """

    def __init__(self, play: RewindableRun) -> None:
        self.play = play
        self.doubt = ""
        """Reason against the first violation that was not believed."""

    def __call__(self, chooser: Chooser) -> tuple[Violation | None, list[int], int]:
        """One run, for a search.

        Raises:
            Unfaithful: as ``RewindableRun``.
        """
        violation, choices, steps = self.play(chooser)
        if violation is not None:
            try:
                _, again = self.play.fresh(FixedSchedule(choices))
                told = "held" if again is None else again.cause
                doubt = f"replayed, the same schedule says: {told}"
            except Diverged as error:
                again, doubt = None, str(error)
            if again != violation:
                self.play.suspect(choices)
                self.doubt = self.doubt or f"{violation.cause}; but {doubt}"
                violation = None
        return violation, choices, steps
