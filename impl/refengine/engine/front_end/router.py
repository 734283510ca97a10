"""Refusal of requests that can never be served, and the choice of a replica (SPEC 8)."""

from collections.abc import Mapping, Sequence

from ..settings import EngineSettings


def check_servable(settings: EngineSettings, prompt: Sequence[int], max_tokens: int) -> None:
    """Raise ValueError, with the reason, for a request that no replica can ever serve."""
    vocabulary, most = settings.size.vocabulary, settings.most_tokens
    if not prompt or max_tokens < 1:
        raise ValueError("a request needs a prompt, and asks for at least one token")
    if not all(0 <= token < vocabulary for token in prompt):
        raise ValueError(f"the prompt has tokens that are not below {vocabulary}")
    if len(prompt) + max_tokens - 1 > most:
        raise ValueError(
            f"{len(prompt)} tokens and {max_tokens} more never fit into a KV cache of {most}"
        )


_WAITING_WEIGHT = 4  # weight of a waiting request: it will run too, and shows that others do now


def load(waiting: int, running: int, on_the_way: int = 0) -> int:
    """Return a replica's load: its reported requests, and those sent to it since."""
    return _WAITING_WEIGHT * (waiting + on_the_way) + running


class LoadBalancer:
    """Chooses the least loaded replica; of equals the one least recently chosen. Sans I/O."""

    def __init__(self) -> None:
        self._turn = 0
        self._taken: dict[str, int] = {}

    def choose(self, loads: Mapping[str, int]) -> str | None:
        """Return the chosen name, from loads by name; None if there are none."""
        name = min(loads, key=lambda name: (loads[name], self._taken.get(name, 0)), default=None)
        if name is not None:
            self._turn += 1
            self._taken[name] = self._turn
        return name
