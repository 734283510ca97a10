"""A worker on paper: its KV cache holds digests of all that came before. A wrong block shows."""

import hashlib
from collections.abc import Sequence
from typing import Any

from refengine.engine.core.scheduler import Scheduler
from refengine.engine.model.batching import Batch, StepResult, Transfer
from refengine.engine.model.tokens import END
from refengine.engine.protocol import Output, Request
from refengine.engine.settings import EngineSettings

Entry = bytes


def entry_of(before: Entry, token: int) -> Entry:
    return hashlib.blake2b(before + token.to_bytes(2, "big"), digest_size=8).digest()


def token_of(entries: Sequence[Entry]) -> int:
    """One in sixteen ends the text."""
    drawn = hashlib.blake2b(b"".join(entries), digest_size=2).digest()
    return END if drawn[0] < 16 else drawn[1] % 4


def entries_of(tokens: Sequence[int]) -> list[Entry]:
    entries: list[Entry] = []
    for token in tokens:
        entries.append(entry_of(entries[-1] if entries else b"", token))
    return entries


def alone(prompt: Sequence[int], max_tokens: int) -> list[int]:
    tokens = list(prompt)
    while len(tokens) < len(prompt) + max_tokens:
        token = token_of(entries_of(tokens))
        if token == END:
            break
        tokens.append(token)
    return tokens[len(prompt) :]


class PaperWorker:
    """Transfers end when, and as, `end_transfer` says."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.cache = [[b"blank"] * settings.block_size for _ in range(settings.blocks)]
        self.fetches: dict[str, Transfer] = {}
        self.sends: dict[str, Transfer] = {}
        self.done: list[str] = []
        self.failed: list[str] = []

    def execute(self, batch: Batch) -> StepResult:
        for transfer in batch.fetch:
            assert transfer.transfer_id not in self.fetches
            self.fetches[transfer.transfer_id] = transfer
        for transfer in batch.send:
            assert transfer.transfer_id not in self.sends
            self.sends[transfer.transfer_id] = transfer
        tokens: list[int | None] = []
        assert sum(len(row.tokens) for row in batch.rows) <= self.settings.max_step_tokens
        assert len(batch.rows) <= self.settings.max_running
        for row in batch.rows:
            assert row.tokens
            for position, token in enumerate(row.tokens, row.start):
                before = self.read(row.table, position)
                self.write(row.table, position, entry_of(before[-1] if before else b"", token))
            whole = self.read(row.table, row.start + len(row.tokens))
            tokens.append(token_of(whole) if row.sample else None)
        done, failed, self.done, self.failed = self.done, self.failed, [], []
        return StepResult(tokens, tuple(done), tuple(failed))

    def read(self, table: Sequence[int], count: int) -> list[Entry]:
        size = self.settings.block_size
        return [self.cache[table[p // size]][p % size] for p in range(count)]

    def write(self, table: Sequence[int], position: int, entry: Entry) -> None:
        size = self.settings.block_size
        self.cache[table[position // size]][position % size] = entry

    def end_transfer(self, name: str, tokens: Sequence[int] | None) -> None:
        """Told with the next step. `tokens`: what is known to have been sent; None: it failed."""
        send, fetch = self.sends.pop(name, None), self.fetches.pop(name, None)
        if fetch is not None:
            entries = entries_of(tokens) if tokens is not None else [b"torn"] * 3
            room = len(fetch.table) * self.settings.block_size
            for position, entry in enumerate(entries[:room]):
                self.write(fetch.table, position, entry)
        assert send or fetch
        (self.failed if tokens is None else self.done).append(name)


class PaperReplica:
    """A scheduler over such a worker, and what came of each request."""

    def __init__(self, **given: Any) -> None:
        given = {"blocks": 8, "block_size": 2, "max_running": 4, "max_step_tokens": 6} | given
        self.settings = EngineSettings(**given)
        self.scheduler = Scheduler(self.settings)
        self.worker = PaperWorker(self.settings)
        self.tokens: dict[str, list[int]] = {}
        self.finishes: dict[str, str] = {}

    def add(self, name: str, prompt: Sequence[int], max_tokens: int = 4, **more: Any) -> None:
        self.scheduler.add(Request(name, tuple(prompt), max_tokens, **more))

    def step(self) -> Batch | None:
        batch = self.scheduler.schedule()
        if batch is not None:
            self.note(self.scheduler.update(batch, self.worker.execute(batch)))
        return batch

    def run(self, most: int = 500) -> list[Batch]:
        batches: list[Batch] = []
        while (batch := self.step()) is not None:
            batches.append(batch)
            assert len(batches) < most, f"no end: {self.finishes}"
        return batches

    def note(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            assert output.id not in self.finishes
            self.tokens.setdefault(output.id, []).extend(output.tokens)
            if output.finish is not None:
                self.finishes[output.id] = output.finish
