"""The scheduler: continuous batching over a paged KV cache (SPEC 8)."""

from bisect import insort
from collections.abc import Sequence
from itertools import pairwise

from ..errors import RequestRefused
from ..model.batching import Batch, Row, StepResult, Transfer
from ..model.tokens import END
from ..protocol import Output, Request
from ..settings import EngineSettings
from .blocks import BlockPool
from .kv_transfer_aggregator import KvTransferAggregator
from .sequence import SequenceState


class Scheduler:
    """Chooses each step's batch, sans I/O.

    `schedule` and `update` alternate; `add` and `cancel` may come at any time. Requests are served
    in the order of their arrival. When blocks run out, the youngest request gives its own back and
    is computed anew later; blocks that are still cached then are reused.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self.preemptions = 0
        self.reused_tokens = 0
        """Number of tokens that were not computed since the cache held them."""
        self._reset()

    def _reset(self) -> None:
        self._blocks = BlockPool(self._settings.blocks)
        self._aggregator = KvTransferAggregator()
        self._known: dict[str, SequenceState] = {}
        self._arrivals = 0
        self._waiting: list[SequenceState] = []  # the oldest first
        self._running: list[SequenceState] = []  # the oldest first
        self._arriving: dict[str, SequenceState] = {}
        self._leaving: dict[str, list[int]] = {}
        self._sends: list[Transfer] = []
        self._step: tuple[Batch, list[SequenceState]] | None = None

    @property
    def waiting(self) -> int:
        """Number of requests that have not begun."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Number of requests that are computed, or whose blocks are on their way."""
        return len(self._known) - len(self._waiting)

    @property
    def unfinished(self) -> int:
        """Number of requests without a finish."""
        return len(self._known)

    @property
    def transfers(self) -> int:
        """Number of transfers of KV blocks, in either direction."""
        return len(self._arriving) + len(self._leaving)

    @property
    def blocks_in_use(self) -> int:
        """Number of blocks of the KV cache in use."""
        return self._blocks.in_use

    def add(self, request: Request) -> None:
        """Queue a request. Raises RequestRefused if it can never be served."""
        reason = self._refusal(request)
        if reason:
            raise RequestRefused(request.id, reason)
        self._known[request.id] = sequence = SequenceState(request, self._arrivals)
        self._arrivals += 1
        self._waiting.append(sequence)

    def cancel(self, request_id: str) -> Output | None:
        """End a request in whatever state; return its last output, or None if it is unknown."""
        sequence = self._known.pop(request_id, None)
        if sequence is None:
            return None
        sequence.cancelled = True
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        elif sequence in self._running:
            self._running.remove(sequence)
            if self._step is None or sequence not in self._step[1]:
                self._blocks.release(sequence.table)
        return Output(request_id, (), "cancelled")

    def abort_all(self) -> list[str]:
        """Drop all requests, since workers and cache are gone; return the unfinished ids."""
        ids = list(self._known)
        self._reset()
        return ids

    def schedule(self) -> Batch | None:
        """Return the next step's batch, which `update` has to follow; None if none."""
        if self._step is not None:
            raise RuntimeError("the result of the last step has not been told")
        chosen, budget = self._continue_running()
        while not (chosen or budget):  # for whom it was reserved gave up its blocks
            chosen, budget = self._continue_running()
        fetches: list[Transfer] = []
        while self._waiting and budget and self.running < self._settings.max_running:
            sequence = self._waiting[0]
            tokens = self._start(sequence, budget, fetches)
            if tokens is None:
                break
            self._waiting.pop(0)
            if tokens:
                insort(self._running, sequence, key=_age)
                chosen.append((sequence, tokens))
                budget -= tokens
        if not (chosen or self.transfers):
            return None
        sends, self._sends = self._sends, []
        rows = tuple(_row(sequence, tokens) for sequence, tokens in chosen)
        batch = Batch(rows, tuple(fetches), tuple(sends))
        self._step = batch, [sequence for sequence, _ in chosen]
        return batch

    def update(self, batch: Batch, result: StepResult | Sequence[StepResult]) -> list[Output]:
        """Take the step's results, of all ranks or the only one; return outputs in row order."""
        results = [result] if isinstance(result, StepResult) else result
        if self._step is None or self._step[0] is not batch:
            raise RuntimeError("this is not the result of the last step")
        if any(one.tokens != other.tokens for one, other in pairwise(results)):
            raise RuntimeError("the ranks of one replica disagree about the next tokens")
        step, self._step = self._step[1], None
        outputs: list[Output] = []
        for sequence, row, token in zip(step, batch.rows, results[0].tokens, strict=True):
            self._mark_computed(sequence, len(row.tokens))
            if sequence.cancelled:
                self._blocks.release(sequence.table)
            elif token is not None:
                outputs.append(self._take_token(sequence, token))
        for name, whole in self._aggregator.add(results).items():
            self._end_transfer(name, whole)
        return outputs

    def _refusal(self, request: Request) -> str:
        vocabulary, most = self._settings.size.vocabulary, self._settings.most_tokens
        if request.id in self._known:
            return "there is one by this name"
        if request.by_link and request.transfer_id in self._transfer_ids():
            return f"KV blocks by the name of {request.transfer_id!r} are still on their way"
        if not request.prompt or request.max_tokens < 1:
            return "it needs a prompt, and to ask for at least one token"
        if not all(0 <= token < vocabulary for token in request.prompt):
            return f"its prompt has tokens that are not below {vocabulary}"
        if len(request.prompt) + request.max_tokens - 1 > most:
            return (
                f"{len(request.prompt)} tokens and {request.max_tokens} more never fit into a "
                f"KV cache of {most}"
            )
        return ""

    def _transfer_ids(self) -> set[str]:
        """Return the ids of transfers that are under way, or are to be."""
        requests = [sequence.request for sequence in self._known.values()]
        coming = {request.transfer_id for request in requests if request.by_link}
        return coming.union(self._arriving, self._leaving)

    def _continue_running(self) -> tuple[list[tuple[SequenceState, int]], int]:
        """Return running requests with their token counts, and the budget left (0: out of blocks).

        Requests that need one token only get it before others get their chunks.
        """
        chosen: list[tuple[SequenceState, int]] = []
        budget = self._settings.max_step_tokens
        single = sum(sequence.pending == 1 for sequence in self._running)
        preempted = self.preemptions
        for sequence in self._running:  # preemption may remove its last ones meanwhile
            single -= sequence.pending == 1
            tokens = min(sequence.pending, budget - single if sequence.pending > 1 else budget)
            if tokens > 0 and self._make_room(sequence, sequence.computed + tokens):
                chosen.append((sequence, tokens))
                budget -= tokens
        return chosen, budget if self.preemptions == preempted else 0

    def _make_room(self, sequence: SequenceState, tokens: int) -> bool:
        """Get blocks for so many tokens; return False if it had to give up its own."""
        while (new := self._blocks.take(self._blocks_for(tokens) - len(sequence.table))) is None:
            victim = self._running.pop()
            self._blocks.release(victim.table)
            victim.reset()
            insort(self._waiting, victim, key=_age)
            self.preemptions += 1
            if victim is sequence:
                return False
        sequence.table.extend(new)
        return True

    def _start(self, sequence: SequenceState, budget: int, fetches: list[Transfer]) -> int | None:
        """Return its number of first tokens, 0 while its blocks are to come; None without room."""
        size, known = (
            self._settings.block_size,
            len(sequence.tokens) - 1,
        )  # the last is computed here
        if sequence.fetches:
            table = self._blocks.take(self._blocks_for(known))
            if table is None:
                return None
            sequence.table = table
            name = sequence.request.transfer_id
            self._arriving[name] = sequence
            fetches.append(Transfer(name, sequence.request.imported or "", tuple(table)))
            return 0
        found = self._blocks.find(sequence.keys(known // size, size))
        computed = len(found) * size
        tokens = min(len(sequence.tokens) - computed, budget)
        new = self._blocks.take(self._blocks_for(computed + tokens) - len(found))
        if new is None:
            self._blocks.release(found)
            return None
        sequence.table, sequence.computed, sequence.named = found + new, computed, len(found)
        self.reused_tokens += computed
        return tokens

    def _mark_computed(self, sequence: SequenceState, tokens: int) -> None:
        """Count computed tokens, and make full blocks findable."""
        size = self._settings.block_size
        sequence.computed += tokens
        full = sequence.computed // size
        keys = sequence.keys(full, size)
        for index in range(sequence.named, full):
            self._blocks.name(sequence.table[index], keys[index])
        sequence.named = full

    def _take_token(self, sequence: SequenceState, token: int) -> Output:
        request = sequence.request
        if token == END:
            return self._finished(sequence, (), "stop")
        sequence.tokens.append(token)
        if sequence.generated == request.max_tokens:
            return self._finished(sequence, (token,), "length")
        if request.export is None:
            return Output(request.id, (token,))
        name = request.transfer_id
        self._sends.append(Transfer(name, request.export, tuple(sequence.table)))
        self._leaving[name], sequence.table = sequence.table, []
        return self._finished(sequence, (token,), "exported")

    def _finished(self, sequence: SequenceState, tokens: tuple[int, ...], finish: str) -> Output:
        self._running.remove(sequence)
        del self._known[sequence.request.id]
        self._blocks.release(sequence.table)
        return Output(sequence.request.id, tokens, finish)

    def _end_transfer(self, name: str, whole: bool) -> None:
        """End a transfer: nothing accesses its blocks any more."""
        sent = self._leaving.pop(name, None)
        if sent is not None:
            self._blocks.release(sent)
            return
        sequence = self._arriving.pop(name)
        sequence.fetches = False
        if sequence.cancelled:
            self._blocks.release(sequence.table)
            return
        if whole:
            self._mark_computed(sequence, len(sequence.tokens) - 1)
        insort(self._running, sequence, key=_age)

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self._settings.block_size)


def _age(sequence: SequenceState) -> int:
    return sequence.arrival


def _row(sequence: SequenceState, tokens: int) -> Row:
    upto = sequence.computed + tokens
    return Row(
        sequence.request.id,
        tuple(sequence.tokens[sequence.computed : upto]),
        sequence.computed,
        tuple(sequence.table),
        upto == len(sequence.tokens),
    )
