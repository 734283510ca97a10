"""A transfer has ended when every rank has said so, in whichever step each does."""

from collections.abc import Sequence

from ..model.batching import StepResult


class KvTransferAggregator:
    """One rank that failed fails it, but only once no rank touches its blocks any more."""

    def __init__(self) -> None:
        self._heard: dict[str, list[bool]] = {}

    def add(self, results: Sequence[StepResult]) -> dict[str, bool]:
        """What all ranks say after a step. Whether each transfer that has ended is whole."""
        for result in results:
            for names, good in ((result.kv_done, True), (result.kv_failed, False)):
                for name in names:
                    self._heard.setdefault(name, []).append(good)
        ended = {name: all(said) for name, said in self._heard.items() if len(said) >= len(results)}
        for name in ended:
            del self._heard[name]
        return ended
