"""A front end's half of the wave protocol: what it knows of the replicas."""

from .messages import Counts, State


class FrontEndWave:
    """Sans I/O. It says nothing by itself: replicas alone ask for waves, for they alone know."""

    __slots__ = ("counts", "running", "wave")

    def __init__(self) -> None:
        self.wave = 0
        self.running = False
        self.counts: tuple[Counts | None, ...] = ()

    def hear(self, state: State) -> None:
        """The coordinator has published. Waves go forward: an older state is no news."""
        if (state.wave, state.running) < (self.wave, self.running):
            return
        self.wave, self.running = state.wave, state.running
        if state.counts is not None:
            self.counts = state.counts
