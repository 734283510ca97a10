"""Which replicas give signs of life (SPEC C6)."""


class Presence:
    """Sans I/O, in monotonic seconds. A rank that never listened is not missed."""

    def __init__(self, silence: float) -> None:
        self._silence = silence
        self._heard: dict[int, float] = {}
        self._listening: dict[int, int] = {}

    def came(self, rank: int, now: float) -> bool:
        """A subscription; whether that rank did not listen before."""
        self._heard[rank] = now
        self._listening[rank] = self._listening.get(rank, 0) + 1
        return self._listening[rank] == 1

    def went(self, rank: int) -> bool:
        """A subscription's end; whether it was the rank's last."""
        left = self._listening.get(rank, 0) - 1
        if left > 0:
            self._listening[rank] = left
            return False
        self._heard.pop(rank, None)
        return self._listening.pop(rank, None) is not None

    def spoke(self, rank: int, now: float) -> bool:
        """A message; whether it comes from one who listens and had been given up."""
        if rank not in self._listening:
            return False
        back = rank not in self._heard
        self._heard[rank] = now
        return back

    def silent(self, now: float) -> list[int]:
        """Who is given up now."""
        gone = [rank for rank, heard in self._heard.items() if now - heard >= self._silence]
        for rank in gone:
            del self._heard[rank]
        return gone

    def due(self) -> float:
        """When to ask for the silent next."""
        return min(self._heard.values(), default=float("inf")) + self._silence
