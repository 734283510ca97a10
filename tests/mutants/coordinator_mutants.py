"""The mutants of the reference's coordinator: planted faults for the clauses of SPEC 7."""

from __future__ import annotations

from mutant import Mutant, one

COORDINATOR: tuple[Mutant, ...] = (
    one(
        "c1_front_ends_are_told_too_early",
        "C1/every-order",
        "bad-transition",
        "coordinator/coordinator_wave.py",
        "        return State(self.wave, self.running, counts)\n",
        "        return State(self.wave + (not self.running), self.running, counts)\n",
    ),
    one(
        "c2_a_late_subscriber_is_told_nothing",
        "C2/every-order",
        "lost",
        "coordinator/coordinator_wave.py",
        "            out.append(self._start())\n",
        "            pass\n",
    ),
    one(
        "c2_its_own_prediction_is_believed",
        "C2/every-order-with-holds",
        "lost",
        "coordinator/coordinator_wave.py",
        "        if self.running:\n            return [self._start()]\n",
        "        if self.running:\n            return []\n",
    ),
    one(
        "c3_a_stale_start_arms_a_paused_engine",
        "C3/every-order",
        "hang bad-transition",
        "coordinator/engine_wave.py",
        "        elif not self.running and start.wave >= self.wave and",
        "        elif not self.running and",
    ),
)
