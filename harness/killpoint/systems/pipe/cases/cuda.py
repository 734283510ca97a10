"""Cases of pipes whose tensors lie on a GPU; without one they are unsupported by the machine."""

from __future__ import annotations

import msgspec

from killpoint.case import Case
from killpoint.runner.observe import accelerators
from killpoint.runner.stage import Play
from killpoint.scenario import Scenario
from killpoint.search.case_run import CaseRun
from killpoint.search.play_evidence import UnableHere
from killpoint.search.player import Player
from killpoint.systems.pipe.cases import deaths, send_buffer, sweeps, transfers
from killpoint.systems.pipe.tensor_fuzz import fuzz_tensors

_OF = {
    case.id: case for case in (*transfers.CASES, *send_buffer.CASES, *deaths.CASES, *sweeps.CASES)
}


class _OnGpu:
    """Plays every scenario with tensors on a GPU."""

    def __init__(self, player: Player) -> None:
        self._player = player

    def play(self, scenario: Scenario) -> Play:
        """The same story on another device."""
        assert scenario.pipe is not None
        shape = msgspec.structs.replace(scenario.pipe, device="cuda")
        return self._player.play(msgspec.structs.replace(scenario, pipe=shape, device="cuda"))

    def forget(self, play: Play) -> None:
        """Its record is not needed any more."""
        self._player.forget(play)


def _needs_a_gpu() -> None:
    if not accelerators.present():
        raise UnableHere("this machine has no GPU")


def _on_gpu(id: str) -> Case:
    """A case as it is, with its tensors on a GPU."""
    case = _OF[id]
    invariant, name = id.split("/")

    def run(case_run: CaseRun) -> None:
        _needs_a_gpu()
        with case_run.using(_OnGpu):
            case.run(case_run)

    summary = f"on a GPU: {case.summary}"
    return Case(f"{invariant}/cuda-{name}", summary, run, case.needs | {"cuda"})


def _any_tensors(case_run: CaseRun) -> None:
    _needs_a_gpu()
    fuzz_tensors(case_run, "K1/cuda-any-tensors", 60 if case_run.full else 6, "cuda")


CASES: tuple[Case, ...] = (
    *(
        _on_gpu(id)
        for id in (
            "K1/every-dtype-and-layout",
            "K1/every-shape",
            "K1/large-and-none",
            "K2/empty-after-every-tensor",
            "K3/send-fails-once",
            "K3/exception-in-a-carrier",
            "K4/first-killed-while-the-other-waits",
            "K4/killed-while-the-other-sends",
            "K4/carrier-killed-anywhere",
            "K5/overwritten-after-send",
            "K5/views-overwritten-after-send",
            "K7/both-receive-first",
            "K7/both-directions-at-once",
            "L1/pipe-clean-end",
            "L1/pipe-killed-then-next-start",
        )
    ),
    Case(
        "K1/cuda-any-tensors",
        "on a GPU: tensors that Hypothesis chooses",
        _any_tensors,
        frozenset({"pipe", "cuda"}),
    ),
)
