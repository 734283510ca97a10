"""Which requests can never be served, whoever takes them."""

from collections.abc import Mapping, Sequence

from ..settings import EngineSettings


def check_servable(settings: EngineSettings, prompt: Sequence[int], max_tokens: int) -> None:
    """ValueError, which says what is wrong with it."""
    vocabulary, most = settings.size.vocabulary, settings.most_tokens
    if not prompt or max_tokens < 1:
        raise ValueError("a request needs a prompt, and asks for at least one token")
    if not all(0 <= token < vocabulary for token in prompt):
        raise ValueError(f"the prompt has tokens that are not below {vocabulary}")
    if len(prompt) + max_tokens - 1 > most:
        raise ValueError(
            f"{len(prompt)} tokens and {max_tokens} more never fit into a KV cache of {most}"
        )


_WAITING_WEIGHT = 4  # times as much as one that runs: it will run, and it says that others do


def load(waiting: int, running: int, on_the_way: int = 0) -> int:
    """Of one replica: what it says it has, and what was sent to it since."""
    return _WAITING_WEIGHT * (waiting + on_the_way) + running


class LoadBalancer:
    """Sans I/O. Of equals the one is taken that was not taken for longest."""

    def __init__(self) -> None:
        self._turn = 0
        self._taken: dict[str, int] = {}

    def choose(self, loads: Mapping[str, int]) -> str | None:
        """The name of one of these; None if there is none."""
        name = min(loads, key=lambda name: (loads[name], self._taken.get(name, 0)), default=None)
        if name is not None:
            self._turn += 1
            self._taken[name] = self._turn
        return name
