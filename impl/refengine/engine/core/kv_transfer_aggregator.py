"""Aggregation of KV transfers over ranks: one has ended once every rank has reported its end."""

from collections.abc import Sequence

from ..model.batching import StepResult


class KvTransferAggregator:
    """Collects the ranks' reports; one failure fails a transfer, once no rank uses its blocks."""

    def __init__(self) -> None:
        self._heard: dict[str, list[bool]] = {}

    def add(self, results: Sequence[StepResult]) -> dict[str, bool]:
        """Take all ranks' results of a step; return ended transfers, and whether each is whole."""
        for result in results:
            for names, good in ((result.kv_done, True), (result.kv_failed, False)):
                for name in names:
                    self._heard.setdefault(name, []).append(good)
        ended = {name: all(said) for name, said in self._heard.items() if len(said) >= len(results)}
        for name in ended:
            del self._heard[name]
        return ended
