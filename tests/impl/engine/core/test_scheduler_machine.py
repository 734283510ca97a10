"""Anything may happen to a scheduler with a tiny cache: no block leaks, every request ends well."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from refengine.engine.errors import RequestRefused
from refengine.engine.model.batching import Batch

from ..paper import PaperReplica, alone

PROMPTS = st.lists(st.integers(0, 1), min_size=1, max_size=9)


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, tuple[list[int], int, bool]] = {}
        self.sent: dict[str, list[int]] = {}
        self.under_way: Batch | None = None

    @initialize(
        blocks=st.integers(2, 9),
        block_size=st.integers(1, 4),
        running=st.integers(1, 4),
        tokens=st.integers(1, 9),
    )
    def begin(self, blocks: int, block_size: int, running: int, tokens: int) -> None:
        self.paper = PaperReplica(
            blocks=blocks, block_size=block_size, max_running=running, max_step_tokens=tokens
        )

    @rule(
        prompt=PROMPTS,
        most=st.integers(1, 9),
        kind=st.sampled_from(["", "", "out", "in"]),
        transfer=st.sampled_from(["", "", "t"]),
    )
    def ask(self, prompt: list[int], most: int, kind: str, transfer: str) -> None:
        name = f"r{len(self.asked)}"
        links = {"out": {"export": "link"}, "in": {"imported": "link"}}.get(kind, {})
        fits = len(prompt) + most - 1 <= self.paper.settings.most_tokens
        reason = ""
        try:
            self.paper.add(name, prompt, most, transfer=transfer, **links)
        except RequestRefused as refusal:
            reason = refusal.reason
        if reason:
            assert not fits or (transfer and kind and "on their way" in reason)
            return
        assert fits
        self.asked[name] = prompt, most, kind == "out"
        if kind:
            self.sent[transfer or name] = prompt

    @rule(number=st.integers(0, 20))
    def cancel(self, number: int) -> None:
        name = f"r{number}"
        there = name in self.asked and name not in self.paper.finishes
        output = self.paper.scheduler.cancel(name)
        assert (output is not None) == there
        self.paper.note([output] if output else [])

    @rule()
    def plan(self) -> None:
        if self.under_way is None:
            self.under_way = self.paper.scheduler.schedule()

    @rule()
    def compute(self) -> None:
        if self.under_way is not None:
            batch, self.under_way = self.under_way, None
            self.paper.note(self.paper.scheduler.update(batch, self.paper.worker.execute(batch)))

    @rule()
    def step(self) -> None:
        self.plan()
        self.compute()

    @rule(whole=st.booleans(), first=st.booleans())
    def transfer(self, whole: bool, first: bool) -> None:
        worker = self.paper.worker
        names = [*worker.fetches, *worker.sends]
        if names:
            name = names[0 if first else -1]
            worker.end_transfer(name, self.sent[name] if whole else None)

    @invariant()
    def every_block_is_accounted_for(self) -> None:
        if not hasattr(self, "paper"):
            return
        scheduler = self.paper.scheduler
        pool = scheduler._blocks
        tables = [served.table for served in scheduler._running]
        tables += [served.table for served in scheduler._arriving.values()]
        tables += scheduler._leaving.values()
        if scheduler._step is not None:
            tables += [each.table for each in scheduler._step[1] if each.cancelled]
        held = Counter(block for table in tables for block in table)
        assert pool._references == held
        assert pool.in_use + pool.available == self.paper.settings.blocks
        assert {*pool._blank, *pool._idle, *held} == set(range(self.paper.settings.blocks))
        held_by_waiting = [(s.table, s.computed, s.named) for s in scheduler._waiting]
        assert held_by_waiting == [([], 0, 0)] * scheduler.waiting

    @invariant()
    def nobody_overtakes(self) -> None:
        if hasattr(self, "paper"):
            scheduler = self.paper.scheduler
            for some in (scheduler._running, scheduler._waiting):
                ages = [each.arrival for each in some]
                assert ages == sorted(ages)

    def teardown(self) -> None:
        if not hasattr(self, "paper"):
            return
        self.compute()
        for _ in range(2000):
            self.transfer(whole=True, first=True)
            if self.paper.step() is None:
                break
        assert set(self.paper.finishes) == set(self.asked)
        assert self.paper.scheduler.blocks_in_use == 0
        assert self.paper.scheduler.unfinished == 0
        for name, (prompt, most, exports) in self.asked.items():
            whole, finish = alone(prompt, most), self.paper.finishes[name]
            found = self.paper.tokens[name]
            if finish == "cancelled":
                assert found == whole[: len(found)]
            elif finish == "exported":
                assert exports
                assert found == whole[:1]
            else:
                assert found == whole
                assert finish == ("length" if len(whole) == most else "stop")


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
