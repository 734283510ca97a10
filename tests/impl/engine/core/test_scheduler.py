"""What a step computes, told with a worker on paper."""

from typing import Any

import pytest

from refengine.engine.core.scheduler import Scheduler
from refengine.engine.errors import RequestRefused
from refengine.engine.model.batching import Batch, StepResult
from refengine.engine.protocol import Output, Request
from refengine.engine.settings import EngineSettings

from ..paper import PaperReplica, alone

LONG = [n % 4 for n in range(11)]


def lengths(batch: Batch | None) -> list[tuple[str, int, int]]:
    assert batch is not None
    return [(row.request_id, row.start, len(row.tokens)) for row in batch.rows]


def never_ending(count: int, max_tokens: int, length: int = 3) -> list[list[int]]:
    """Prompts that are not ended by the model within so many tokens."""
    found: list[list[int]] = []
    number = 0
    while len(found) < count:
        prompt = [number >> 2 * place & 3 for place in range(length)]
        if len(alone(prompt, max_tokens)) == max_tokens:
            found.append(prompt)
        number += 1
    return found


def test_without_requests_there_is_nothing_to_do():
    paper = PaperReplica()
    assert paper.step() is None
    assert (paper.scheduler.waiting, paper.scheduler.running, paper.scheduler.unfinished) == (
        0,
        0,
        0,
    )


def test_a_request_is_prefilled_then_decoded_until_its_length():
    (prompt,) = never_ending(1, 3)
    paper = PaperReplica()
    paper.add("a", prompt, 3)
    assert (paper.scheduler.waiting, paper.scheduler.running) == (1, 0)
    first = paper.step()
    assert lengths(first) == [("a", 0, 3)]
    assert first is not None
    assert first.rows[0].sample
    assert len(first.rows[0].table) == 2
    assert (paper.scheduler.waiting, paper.scheduler.running) == (0, 1)
    assert lengths(paper.step()) == [("a", 3, 1)]
    assert lengths(paper.step()) == [("a", 4, 1)]
    assert paper.step() is None
    assert paper.tokens == {"a": alone(prompt, 3)}
    assert paper.finishes == {"a": "length"}
    assert paper.scheduler.blocks_in_use == 0


def test_the_model_may_end_it():
    prompt = next(p for n in range(999) if len(alone(p := [n % 4, n // 4 % 4, n // 16], 8)) < 8)
    paper = PaperReplica()
    paper.add("a", prompt, 8)
    paper.run()
    assert paper.tokens == {"a": alone(prompt, 8)}
    assert paper.finishes == {"a": "stop"}


def test_a_long_prompt_comes_in_chunks_and_those_who_decode_go_first():
    (short,) = never_ending(1, 8)
    paper = PaperReplica(blocks=16)
    paper.add("a", short, 8)
    paper.step()
    paper.add("b", LONG, 1)
    assert lengths(paper.step()) == [("a", 3, 1), ("b", 0, 5)]
    paper.add("c", short, 1)
    later = paper.step()
    assert lengths(later) == [("a", 4, 1), ("b", 5, 5)]
    assert later is not None
    assert [row.sample for row in later.rows] == [True, False]
    assert lengths(paper.step()) == [("a", 5, 1), ("b", 10, 1), ("c", 2, 1)]


def test_an_older_prompt_leaves_a_token_to_each_younger_decoder():
    """It is older, and prefilled later, if it waited in vain for its blocks."""
    first, second = never_ending(2, 8)
    paper = PaperReplica(blocks=32, max_step_tokens=6)
    paper.add("a", LONG, 2, imported="link")
    paper.add("b", first, 8)
    paper.add("c", second, 8)
    assert lengths(paper.step()) == [("b", 0, 3), ("c", 0, 3)]
    paper.worker.end_transfer("a", None)
    assert lengths(paper.step()) == [("b", 3, 1), ("c", 3, 1)]
    assert lengths(paper.step()) == [("a", 0, 4), ("b", 4, 1), ("c", 4, 1)]
    paper.run()
    assert paper.tokens == {"a": alone(LONG, 2), "b": alone(first, 8), "c": alone(second, 8)}


def test_the_oldest_decode_first_if_there_are_too_many():
    prompts = never_ending(3, 3)
    paper = PaperReplica(max_step_tokens=2)
    for name, prompt in zip("abc", prompts, strict=True):
        paper.add(name, prompt, 3, imported="link")
    paper.step()
    for name, prompt in zip("abc", prompts, strict=True):
        paper.worker.end_transfer(name, prompt[:-1])
    paper.step()
    steps = [[name for name, *_ in lengths(batch)] for batch in paper.run()]
    assert steps == [["a", "b"]] * 3 + [["c"]] * 3


def test_no_more_run_together_than_they_may():
    prompts = never_ending(3, 3, 1)
    paper = PaperReplica(max_running=2)
    for name, prompt in zip("abc", prompts, strict=True):
        paper.add(name, prompt, 3)
    assert [name for name, *_ in lengths(paper.step())] == ["a", "b"]
    assert (paper.scheduler.waiting, paper.scheduler.running, paper.scheduler.unfinished) == (
        1,
        2,
        3,
    )
    paper.run()
    assert paper.tokens == {n: alone(p, 3) for n, p in zip("abc", prompts, strict=True)}


def test_what_the_cache_holds_is_not_computed_again():
    paper = PaperReplica(blocks=16, max_step_tokens=32)
    paper.add("a", LONG, 1)
    paper.run()
    paper.add("b", LONG, 1)
    paper.add("c", [*LONG[:5], 3, 3, 3], 1)
    paper.add("d", LONG[1:], 1)
    assert lengths(paper.step()) == [("b", 10, 1), ("c", 4, 4), ("d", 0, 10)]
    assert paper.scheduler.reused_tokens == 14
    assert paper.tokens["a"] == paper.tokens["b"] == alone(LONG, 1)
    assert paper.tokens["c"] == alone([*LONG[:5], 3, 3, 3], 1)


def test_the_last_token_is_always_computed_though_its_block_is_known():
    paper = PaperReplica(blocks=16, max_step_tokens=32)
    paper.add("a", LONG[:8], 1)
    paper.run()
    paper.add("b", LONG[:8], 1)
    assert lengths(paper.step()) == [("b", 6, 2)]
    assert paper.tokens["b"] == alone(LONG[:8], 1)


def test_what_was_generated_is_found_again_too():
    (prompt,) = never_ending(1, 6)
    paper = PaperReplica(blocks=16)
    paper.add("a", prompt, 6)
    paper.run()
    paper.add("b", [*prompt, *paper.tokens["a"]], 1)
    assert lengths(paper.step()) == [("b", 8, 1)]


def test_who_gives_its_blocks_back_leaves_its_token_to_the_others():
    paper = PaperReplica(blocks=2, block_size=2, max_running=2, max_step_tokens=1)
    (prompt,) = never_ending(1, 3, length=1)
    paper.add("old", [0, 0], 1, imported="link")
    paper.step()
    paper.worker.end_transfer("old", None)
    paper.add("young", prompt, 3)
    paper.step()  # told that the blocks of the old one did not come
    paper.step()
    assert (paper.scheduler.running, paper.scheduler.blocks_in_use) == (2, 2)
    assert lengths(paper.step()) == [("old", 0, 1)]
    assert paper.scheduler.preemptions == 1
    paper.run()
    assert paper.tokens == {"old": alone([0, 0], 1), "young": alone(prompt, 3)}


def test_the_youngest_gives_its_blocks_back_when_they_run_out():
    prompts = never_ending(3, 8)
    paper = PaperReplica(blocks=8, max_step_tokens=16)
    for name, prompt in zip("abc", prompts, strict=True):
        paper.add(name, prompt, 8)
    batches = paper.run()
    assert paper.scheduler.preemptions > 0
    assert list(paper.finishes) == ["a", "b", "c"]
    together = [[name for name, *_ in lengths(batch)] for batch in batches]
    assert together[0] == ["a", "b", "c"]
    assert ["a", "b"] in together
    assert all(names == sorted(names) for names in together)
    assert paper.tokens == {n: alone(p, 8) for n, p in zip("abc", prompts, strict=True)}
    assert paper.scheduler.blocks_in_use == 0


def test_one_that_waits_does_not_take_what_one_that_ran_had_to_give_back():
    """Else it would have to give it back at once."""
    prompts = never_ending(2, 12, 2)
    paper = PaperReplica(blocks=7, max_step_tokens=16)
    for name, prompt in zip("ab", prompts, strict=True):
        paper.add(name, prompt, 12)
    while paper.scheduler.preemptions == 0:
        batch = paper.step()
    assert [name for name, *_ in lengths(batch)] == ["a"]
    assert (paper.scheduler.waiting, paper.scheduler.running) == (1, 1)
    (waits,) = paper.scheduler._waiting
    assert (waits.table, waits.computed, waits.named) == ([], 0, 0)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"prompt": (1,) * 14, "max_tokens": 4}, "14 tokens and 4 more never fit into .* 16"),
        ({"prompt": ()}, "needs a prompt"),
        ({"max_tokens": 0}, "at least one token"),
        ({"prompt": (1, 257)}, "not below 257"),
        ({"prompt": (1, -1)}, "not below 257"),
        ({"id": "there"}, "one by this name"),
    ],
)
def test_what_can_never_be_served_is_refused(given: dict[str, Any], why: str):
    paper = PaperReplica()
    paper.add("there", [1])
    request = Request(**({"id": "a", "prompt": (1, 2), "max_tokens": 2} | given))
    with pytest.raises(RequestRefused, match=why):
        paper.scheduler.add(request)
    assert paper.scheduler.unfinished == 1


def test_what_just_fits_is_served():
    (prompt,) = never_ending(1, 14)
    paper = PaperReplica()
    paper.add("a", prompt, 14)
    paper.run()
    assert paper.tokens["a"] == alone(prompt, 14)


def test_a_refusal_tells_its_facts():
    error = RequestRefused("a", "it is too long")
    assert (error.request_id, error.reason) == ("a", "it is too long")
    assert str(error) == "request 'a' is refused: it is too long"


class TestCancel:
    def test_one_that_waits_never_begins(self):
        paper = PaperReplica(max_running=1)
        paper.add("a", [1], 1)
        paper.add("b", [1], 1)
        assert paper.scheduler.cancel("b") == Output("b", (), "cancelled")
        assert paper.scheduler.cancel("b") is None
        paper.run()
        assert list(paper.finishes) == ["a"]

    def test_one_that_runs_gives_its_blocks_back(self):
        (prompt,) = never_ending(1, 8)
        paper = PaperReplica()
        paper.add("a", prompt, 8)
        paper.step()
        assert paper.scheduler.blocks_in_use == 2
        assert paper.scheduler.cancel("a") == Output("a", (), "cancelled")
        assert paper.scheduler.blocks_in_use == 0
        assert paper.step() is None
        assert (paper.scheduler.running, paper.scheduler.unfinished) == (0, 0)

    def test_one_that_is_being_computed_gives_them_back_after_the_step(self):
        (prompt,) = never_ending(1, 8)
        paper = PaperReplica()
        paper.add("a", prompt, 8)
        paper.step()
        batch = paper.scheduler.schedule()
        assert batch is not None
        assert paper.scheduler.cancel("a") is not None
        assert paper.scheduler.blocks_in_use == 2
        paper.add("a", prompt, 8)
        assert paper.scheduler.update(batch, paper.worker.execute(batch)) == []
        assert paper.scheduler.blocks_in_use == 0
        paper.finishes.clear()
        paper.tokens.clear()
        paper.run()
        assert paper.tokens["a"] == alone(prompt, 8)

    def test_another_goes_on_while_one_of_its_step_is_cancelled(self):
        first, second = never_ending(2, 4)
        paper = PaperReplica()
        paper.add("a", first, 4)
        paper.add("b", second, 4)
        paper.step()
        batch = paper.scheduler.schedule()
        assert batch is not None
        paper.scheduler.cancel("a")
        paper.note(paper.scheduler.update(batch, paper.worker.execute(batch)))
        paper.run()
        assert paper.tokens["b"] == alone(second, 4)


def test_steps_and_results_alternate():
    paper = PaperReplica()
    paper.add("a", [1], 4)
    with pytest.raises(RuntimeError, match="not the result of the last step"):
        paper.scheduler.update(Batch(), StepResult())
    batch = paper.scheduler.schedule()
    assert batch is not None
    with pytest.raises(RuntimeError, match="has not been told"):
        paper.scheduler.schedule()
    with pytest.raises(RuntimeError, match="not the result of the last step"):
        paper.scheduler.update(Batch(), StepResult())
    paper.scheduler.update(batch, paper.worker.execute(batch))


def test_a_result_that_says_too_little_is_noticed():
    paper = PaperReplica()
    paper.add("a", [1], 4)
    batch = paper.scheduler.schedule()
    assert batch is not None
    with pytest.raises(ValueError, match="shorter"):
        paper.scheduler.update(batch, StepResult())


def test_ranks_that_disagree_are_noticed():
    paper = PaperReplica()
    paper.add("a", [1], 4)
    batch = paper.scheduler.schedule()
    assert batch is not None
    with pytest.raises(RuntimeError, match="disagree about the next tokens"):
        paper.scheduler.update(batch, [StepResult([1]), StepResult([2])])


def test_when_the_workers_are_gone_so_is_the_cache():
    paper = PaperReplica(blocks=16, max_running=1)
    paper.add("a", LONG, 4)
    paper.add("b", LONG, 4)
    paper.step()
    paper.scheduler.schedule()
    assert paper.scheduler.abort_all() == ["a", "b"]
    assert (paper.scheduler.unfinished, paper.scheduler.blocks_in_use) == (0, 0)
    assert paper.step() is None
    paper.add("c", LONG, 1)
    assert lengths(paper.step())[0][1] == 0


class TestTransfers:
    def exported(self, **given: Any) -> PaperReplica:
        (prompt,) = never_ending(1, 4)
        paper = PaperReplica(**given)
        paper.add("a", prompt, 4, export="link", transfer="t")
        paper.step()
        return paper

    def test_the_blocks_of_a_prefilled_prompt_are_held_until_they_were_sent(self):
        (prompt,) = never_ending(1, 4)
        paper = self.exported()
        assert paper.tokens == {"a": alone(prompt, 1)}
        assert paper.finishes == {"a": "exported"}
        scheduler = paper.scheduler
        assert (scheduler.unfinished, scheduler.transfers, scheduler.blocks_in_use) == (0, 1, 2)
        batch = paper.step()
        assert batch is not None
        assert batch.rows == ()
        (transfer,) = batch.send
        assert (transfer.transfer_id, transfer.link, len(transfer.table)) == ("t", "link", 2)
        again = paper.step()
        assert again == Batch()
        with pytest.raises(RequestRefused, match="still on their way"):
            paper.add("b", prompt, 4, export="link", transfer="t")
        paper.worker.end_transfer("t", prompt)
        paper.step()
        assert (scheduler.transfers, scheduler.blocks_in_use) == (0, 0)
        assert paper.step() is None
        paper.add("b", prompt, 1)
        assert lengths(paper.step()) == [("b", 2, 1)]  # they are known here, too

    @pytest.mark.parametrize("way", ["export", "imported"])
    def test_no_two_transfers_have_one_name(self, way):
        """One that waits has its name, too; it is free again once that has ended."""
        (prompt,) = never_ending(1, 4)
        paper = PaperReplica(max_running=1)
        paper.add("a", prompt, 4, transfer="t")
        paper.add("b", prompt, 4, transfer="t", **{way: "link"})
        with pytest.raises(RequestRefused, match="by the name of 't' are still on their way"):
            paper.add("c", prompt, 4, imported="link", transfer="t")
        paper.add("d", prompt, 4, transfer="t")
        paper.scheduler.cancel("b")
        paper.add("e", prompt, 4, imported="link", transfer="t")

    def test_a_failed_transfer_gives_the_blocks_back_as_well(self):
        paper = self.exported()
        paper.step()
        paper.worker.end_transfer("t", None)
        paper.step()
        assert paper.scheduler.blocks_in_use == 0
        assert paper.step() is None

    def test_an_export_that_ends_with_its_first_token_is_no_export(self):
        (prompt,) = never_ending(1, 4)
        paper = PaperReplica()
        paper.add("a", prompt, 1, export="link")
        paper.run()
        assert paper.finishes == {"a": "length"}
        assert paper.scheduler.transfers == 0

    def test_blocks_that_come_are_not_computed(self):
        (prompt,) = never_ending(1, 6, 5)
        paper = PaperReplica()
        paper.add("a", prompt, 6, imported="link", transfer="t")
        batch = paper.step()
        assert batch is not None
        assert batch.rows == ()
        (transfer,) = batch.fetch
        assert (transfer.transfer_id, transfer.link, len(transfer.table)) == ("t", "link", 2)
        assert (paper.scheduler.waiting, paper.scheduler.running) == (0, 1)
        paper.worker.end_transfer("t", prompt[:-1])
        assert paper.step() == Batch()
        assert lengths(paper.step()) == [("a", 4, 1)]
        paper.run()
        assert paper.tokens == {"a": alone(prompt, 6)}
        paper.add("b", prompt, 1)
        assert lengths(paper.step()) == [("b", 4, 1)]

    def test_if_they_fail_to_come_it_prefills_by_itself(self):
        (prompt,) = never_ending(1, 6, 5)
        paper = PaperReplica()
        paper.add("a", prompt, 6, imported="link")
        paper.step()
        paper.worker.end_transfer("a", None)
        paper.step()
        assert lengths(paper.step()) == [("a", 0, 5)]
        paper.run()
        assert paper.tokens == {"a": alone(prompt, 6)}
        assert paper.scheduler.blocks_in_use == 0

    def test_others_are_served_meanwhile_and_it_takes_its_place_by_age(self):
        first, second = never_ending(2, 6)
        paper = PaperReplica()
        paper.add("a", first, 6, imported="link")
        paper.add("b", second, 6)
        assert lengths(paper.step()) == [("b", 0, 3)]
        paper.worker.end_transfer("a", first[:-1])
        assert lengths(paper.step()) == [("b", 3, 1)]
        assert [name for name, *_ in lengths(paper.step())] == ["a", "b"]

    def test_one_token_needs_no_blocks_of_others_and_two_need_one(self):
        paper = PaperReplica()
        paper.add("a", [1], 1, imported="link")
        paper.add("b", [1, 1], 1, imported="link")
        batch = paper.step()
        assert lengths(batch) == [("a", 0, 1)]
        assert batch is not None
        assert [len(transfer.table) for transfer in batch.fetch] == [1]

    def test_a_cancelled_one_keeps_its_blocks_until_nothing_comes_any_more(self):
        (prompt,) = never_ending(1, 6, 5)
        paper = PaperReplica()
        paper.add("a", prompt, 6, imported="link")
        paper.step()
        assert paper.scheduler.cancel("a") is not None
        assert (paper.scheduler.unfinished, paper.scheduler.blocks_in_use) == (0, 2)
        assert paper.step() == Batch()
        paper.worker.end_transfer("a", prompt[:-1])
        paper.step()
        assert paper.scheduler.blocks_in_use == 0
        assert paper.step() is None

    def test_one_that_gave_its_blocks_back_computes_them_anew(self):
        first, second = never_ending(2, 10)
        paper = PaperReplica(max_step_tokens=16)
        paper.add("a", first, 10)
        paper.add("b", second, 10, imported="link")
        paper.step()
        paper.worker.end_transfer("b", second[:-1])
        batches = paper.run()
        assert paper.scheduler.preemptions > 0
        assert not any(batch.fetch for batch in batches)
        assert paper.tokens == {"a": alone(first, 10), "b": alone(second, 10)}

    def test_what_is_lent_cannot_be_given_back_and_the_others_wait_for_it(self):
        (prompt,) = never_ending(1, 13)
        paper = self.exported()
        paper.add("b", prompt, 13)
        for _ in range(20):
            assert paper.step() is not None
        assert paper.scheduler.preemptions > 0
        assert "b" not in paper.finishes
        paper.worker.end_transfer("t", prompt)
        paper.run()
        assert paper.tokens["b"] == alone(prompt, 13)

    def test_a_transfer_has_ended_when_all_ranks_say_so(self):
        (prompt,) = never_ending(1, 6, 5)
        paper = PaperReplica()
        paper.add("a", prompt, 6, imported="link")
        paper.step()
        for told in ([("a",), ()], [(), ("a",)]):
            batch = paper.scheduler.schedule()
            assert batch == Batch()
            paper.scheduler.update(batch, [StepResult([], done) for done in told])
        assert lengths(paper.scheduler.schedule()) == [("a", 4, 1)]


def test_settings_are_those_it_was_given():
    scheduler = Scheduler(EngineSettings(blocks=2, block_size=1))
    with pytest.raises(RequestRefused, match="of 2"):
        scheduler.add(Request("a", (1, 1), 2))
