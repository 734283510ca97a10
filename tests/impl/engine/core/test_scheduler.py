"""What a step computes, told with a worker on paper."""

from typing import Any

import pytest

from refengine.engine.core.scheduler import Scheduler
from refengine.engine.errors import RequestRefused
from refengine.engine.model.batching import Batch, StepResult
from refengine.engine.protocol import Output, Request
from refengine.engine.settings import EngineSettings

from ..paper import Desk, alone

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
    desk = Desk()
    assert desk.step() is None
    assert (desk.scheduler.waiting, desk.scheduler.running, desk.scheduler.unfinished) == (0, 0, 0)


def test_a_request_is_prefilled_then_decoded_until_its_length():
    (prompt,) = never_ending(1, 3)
    desk = Desk()
    desk.add("a", prompt, 3)
    assert (desk.scheduler.waiting, desk.scheduler.running) == (1, 0)
    first = desk.step()
    assert lengths(first) == [("a", 0, 3)]
    assert first is not None
    assert first.rows[0].sample
    assert len(first.rows[0].table) == 2
    assert (desk.scheduler.waiting, desk.scheduler.running) == (0, 1)
    assert lengths(desk.step()) == [("a", 3, 1)]
    assert lengths(desk.step()) == [("a", 4, 1)]
    assert desk.step() is None
    assert desk.tokens == {"a": alone(prompt, 3)}
    assert desk.finishes == {"a": "length"}
    assert desk.scheduler.blocks_in_use == 0


def test_the_model_may_end_it():
    prompt = next(p for n in range(999) if len(alone(p := [n % 4, n // 4 % 4, n // 16], 8)) < 8)
    desk = Desk()
    desk.add("a", prompt, 8)
    desk.run()
    assert desk.tokens == {"a": alone(prompt, 8)}
    assert desk.finishes == {"a": "stop"}


def test_a_long_prompt_comes_in_chunks_and_those_who_decode_go_first():
    (short,) = never_ending(1, 8)
    desk = Desk(blocks=16)
    desk.add("a", short, 8)
    desk.step()
    desk.add("b", LONG, 1)
    assert lengths(desk.step()) == [("a", 3, 1), ("b", 0, 5)]
    desk.add("c", short, 1)
    later = desk.step()
    assert lengths(later) == [("a", 4, 1), ("b", 5, 5)]
    assert later is not None
    assert [row.sample for row in later.rows] == [True, False]
    assert lengths(desk.step()) == [("a", 5, 1), ("b", 10, 1), ("c", 2, 1)]


def test_an_older_prompt_leaves_a_token_to_each_younger_decoder():
    """It is older, and prefilled later, if it waited in vain for its blocks."""
    first, second = never_ending(2, 8)
    desk = Desk(blocks=32, max_step_tokens=6)
    desk.add("a", LONG, 2, imported="link")
    desk.add("b", first, 8)
    desk.add("c", second, 8)
    assert lengths(desk.step()) == [("b", 0, 3), ("c", 0, 3)]
    desk.worker.end_transfer("a", None)
    assert lengths(desk.step()) == [("b", 3, 1), ("c", 3, 1)]
    assert lengths(desk.step()) == [("a", 0, 4), ("b", 4, 1), ("c", 4, 1)]
    desk.run()
    assert desk.tokens == {"a": alone(LONG, 2), "b": alone(first, 8), "c": alone(second, 8)}


def test_the_oldest_decode_first_if_there_are_too_many():
    prompts = never_ending(3, 3)
    desk = Desk(max_step_tokens=2)
    for name, prompt in zip("abc", prompts, strict=True):
        desk.add(name, prompt, 3, imported="link")
    desk.step()
    for name, prompt in zip("abc", prompts, strict=True):
        desk.worker.end_transfer(name, prompt[:-1])
    desk.step()
    steps = [[name for name, *_ in lengths(batch)] for batch in desk.run()]
    assert steps == [["a", "b"]] * 3 + [["c"]] * 3


def test_no_more_run_together_than_they_may():
    prompts = never_ending(3, 3, 1)
    desk = Desk(max_running=2)
    for name, prompt in zip("abc", prompts, strict=True):
        desk.add(name, prompt, 3)
    assert [name for name, *_ in lengths(desk.step())] == ["a", "b"]
    assert (desk.scheduler.waiting, desk.scheduler.running, desk.scheduler.unfinished) == (1, 2, 3)
    desk.run()
    assert desk.tokens == {n: alone(p, 3) for n, p in zip("abc", prompts, strict=True)}


def test_what_the_cache_holds_is_not_computed_again():
    desk = Desk(blocks=16, max_step_tokens=32)
    desk.add("a", LONG, 1)
    desk.run()
    desk.add("b", LONG, 1)
    desk.add("c", [*LONG[:5], 3, 3, 3], 1)
    desk.add("d", LONG[1:], 1)
    assert lengths(desk.step()) == [("b", 10, 1), ("c", 4, 4), ("d", 0, 10)]
    assert desk.scheduler.reused_tokens == 14
    assert desk.tokens["a"] == desk.tokens["b"] == alone(LONG, 1)
    assert desk.tokens["c"] == alone([*LONG[:5], 3, 3, 3], 1)


def test_the_last_token_is_always_computed_though_its_block_is_known():
    desk = Desk(blocks=16, max_step_tokens=32)
    desk.add("a", LONG[:8], 1)
    desk.run()
    desk.add("b", LONG[:8], 1)
    assert lengths(desk.step()) == [("b", 6, 2)]
    assert desk.tokens["b"] == alone(LONG[:8], 1)


def test_what_was_generated_is_found_again_too():
    (prompt,) = never_ending(1, 6)
    desk = Desk(blocks=16)
    desk.add("a", prompt, 6)
    desk.run()
    desk.add("b", [*prompt, *desk.tokens["a"]], 1)
    assert lengths(desk.step()) == [("b", 8, 1)]


def test_the_youngest_gives_its_blocks_back_when_they_run_out():
    prompts = never_ending(3, 8)
    desk = Desk(blocks=8, max_step_tokens=16)
    for name, prompt in zip("abc", prompts, strict=True):
        desk.add(name, prompt, 8)
    batches = desk.run()
    assert desk.scheduler.preemptions > 0
    assert list(desk.finishes) == ["a", "b", "c"]
    together = [[name for name, *_ in lengths(batch)] for batch in batches]
    assert together[0] == ["a", "b", "c"]
    assert ["a", "b"] in together
    assert all(names == sorted(names) for names in together)
    assert desk.tokens == {n: alone(p, 8) for n, p in zip("abc", prompts, strict=True)}
    assert desk.scheduler.blocks_in_use == 0


def test_one_that_waits_does_not_take_what_one_that_ran_had_to_give_back():
    """Else it would have to give it back at once."""
    prompts = never_ending(2, 12, 2)
    desk = Desk(blocks=7, max_step_tokens=16)
    for name, prompt in zip("ab", prompts, strict=True):
        desk.add(name, prompt, 12)
    while desk.scheduler.preemptions == 0:
        batch = desk.step()
    assert [name for name, *_ in lengths(batch)] == ["a"]
    assert (desk.scheduler.waiting, desk.scheduler.running) == (1, 1)
    (waits,) = desk.scheduler._waiting
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
    desk = Desk()
    desk.add("there", [1])
    request = Request(**({"id": "a", "prompt": (1, 2), "max_tokens": 2} | given))
    with pytest.raises(RequestRefused, match=why):
        desk.scheduler.add(request)
    assert desk.scheduler.unfinished == 1


def test_what_just_fits_is_served():
    (prompt,) = never_ending(1, 14)
    desk = Desk()
    desk.add("a", prompt, 14)
    desk.run()
    assert desk.tokens["a"] == alone(prompt, 14)


def test_a_refusal_tells_its_facts():
    error = RequestRefused("a", "it is too long")
    assert (error.request_id, error.reason) == ("a", "it is too long")
    assert str(error) == "request 'a' is refused: it is too long"


class TestCancel:
    def test_one_that_waits_never_begins(self):
        desk = Desk(max_running=1)
        desk.add("a", [1], 1)
        desk.add("b", [1], 1)
        assert desk.scheduler.cancel("b") == Output("b", (), "cancelled")
        assert desk.scheduler.cancel("b") is None
        desk.run()
        assert list(desk.finishes) == ["a"]

    def test_one_that_runs_gives_its_blocks_back(self):
        (prompt,) = never_ending(1, 8)
        desk = Desk()
        desk.add("a", prompt, 8)
        desk.step()
        assert desk.scheduler.blocks_in_use == 2
        assert desk.scheduler.cancel("a") == Output("a", (), "cancelled")
        assert desk.scheduler.blocks_in_use == 0
        assert desk.step() is None
        assert (desk.scheduler.running, desk.scheduler.unfinished) == (0, 0)

    def test_one_that_is_being_computed_gives_them_back_after_the_step(self):
        (prompt,) = never_ending(1, 8)
        desk = Desk()
        desk.add("a", prompt, 8)
        desk.step()
        batch = desk.scheduler.schedule()
        assert batch is not None
        assert desk.scheduler.cancel("a") is not None
        assert desk.scheduler.blocks_in_use == 2
        desk.add("a", prompt, 8)
        assert desk.scheduler.update(batch, desk.worker.execute(batch)) == []
        assert desk.scheduler.blocks_in_use == 0
        desk.finishes.clear()
        desk.tokens.clear()
        desk.run()
        assert desk.tokens["a"] == alone(prompt, 8)

    def test_another_goes_on_while_one_of_its_step_is_cancelled(self):
        first, second = never_ending(2, 4)
        desk = Desk()
        desk.add("a", first, 4)
        desk.add("b", second, 4)
        desk.step()
        batch = desk.scheduler.schedule()
        assert batch is not None
        desk.scheduler.cancel("a")
        desk.note(desk.scheduler.update(batch, desk.worker.execute(batch)))
        desk.run()
        assert desk.tokens["b"] == alone(second, 4)


def test_steps_and_results_alternate():
    desk = Desk()
    desk.add("a", [1], 4)
    with pytest.raises(RuntimeError, match="not the result of the last step"):
        desk.scheduler.update(Batch(), StepResult())
    batch = desk.scheduler.schedule()
    assert batch is not None
    with pytest.raises(RuntimeError, match="has not been told"):
        desk.scheduler.schedule()
    with pytest.raises(RuntimeError, match="not the result of the last step"):
        desk.scheduler.update(Batch(), StepResult())
    desk.scheduler.update(batch, desk.worker.execute(batch))


def test_a_result_that_says_too_little_is_noticed():
    desk = Desk()
    desk.add("a", [1], 4)
    batch = desk.scheduler.schedule()
    assert batch is not None
    with pytest.raises(ValueError, match="shorter"):
        desk.scheduler.update(batch, StepResult())


def test_ranks_that_disagree_are_noticed():
    desk = Desk()
    desk.add("a", [1], 4)
    batch = desk.scheduler.schedule()
    assert batch is not None
    with pytest.raises(RuntimeError, match="disagree about the next tokens"):
        desk.scheduler.update(batch, [StepResult([1]), StepResult([2])])


def test_when_the_workers_are_gone_so_is_the_cache():
    desk = Desk(blocks=16, max_running=1)
    desk.add("a", LONG, 4)
    desk.add("b", LONG, 4)
    desk.step()
    desk.scheduler.schedule()
    assert desk.scheduler.abort_all() == ["a", "b"]
    assert (desk.scheduler.unfinished, desk.scheduler.blocks_in_use) == (0, 0)
    assert desk.step() is None
    desk.add("c", LONG, 1)
    assert lengths(desk.step())[0][1] == 0


class TestTransfers:
    def exported(self, **given: Any) -> Desk:
        (prompt,) = never_ending(1, 4)
        desk = Desk(**given)
        desk.add("a", prompt, 4, export="link", transfer="t")
        desk.step()
        return desk

    def test_the_blocks_of_a_prefilled_prompt_are_held_until_they_were_sent(self):
        (prompt,) = never_ending(1, 4)
        desk = self.exported()
        assert desk.tokens == {"a": alone(prompt, 1)}
        assert desk.finishes == {"a": "exported"}
        scheduler = desk.scheduler
        assert (scheduler.unfinished, scheduler.transfers, scheduler.blocks_in_use) == (0, 1, 2)
        batch = desk.step()
        assert batch is not None
        assert batch.rows == ()
        (transfer,) = batch.send
        assert (transfer.transfer_id, transfer.link, len(transfer.table)) == ("t", "link", 2)
        again = desk.step()
        assert again == Batch()
        with pytest.raises(RequestRefused, match="still on their way"):
            desk.add("b", prompt, 4, export="link", transfer="t")
        desk.worker.end_transfer("t", prompt)
        desk.step()
        assert (scheduler.transfers, scheduler.blocks_in_use) == (0, 0)
        assert desk.step() is None
        desk.add("b", prompt, 1)
        assert lengths(desk.step()) == [("b", 2, 1)]  # they are known here, too

    @pytest.mark.parametrize("way", ["export", "imported"])
    def test_no_two_transfers_have_one_name(self, way):
        """One that waits has its name, too; it is free again once that has ended."""
        (prompt,) = never_ending(1, 4)
        desk = Desk(max_running=1)
        desk.add("a", prompt, 4, transfer="t")
        desk.add("b", prompt, 4, transfer="t", **{way: "link"})
        with pytest.raises(RequestRefused, match="by the name of 't' are still on their way"):
            desk.add("c", prompt, 4, imported="link", transfer="t")
        desk.add("d", prompt, 4, transfer="t")
        desk.scheduler.cancel("b")
        desk.add("e", prompt, 4, imported="link", transfer="t")

    def test_a_failed_transfer_gives_the_blocks_back_as_well(self):
        desk = self.exported()
        desk.step()
        desk.worker.end_transfer("t", None)
        desk.step()
        assert desk.scheduler.blocks_in_use == 0
        assert desk.step() is None

    def test_an_export_that_ends_with_its_first_token_is_no_export(self):
        (prompt,) = never_ending(1, 4)
        desk = Desk()
        desk.add("a", prompt, 1, export="link")
        desk.run()
        assert desk.finishes == {"a": "length"}
        assert desk.scheduler.transfers == 0

    def test_blocks_that_come_are_not_computed(self):
        (prompt,) = never_ending(1, 6, 5)
        desk = Desk()
        desk.add("a", prompt, 6, imported="link", transfer="t")
        batch = desk.step()
        assert batch is not None
        assert batch.rows == ()
        (transfer,) = batch.fetch
        assert (transfer.transfer_id, transfer.link, len(transfer.table)) == ("t", "link", 2)
        assert (desk.scheduler.waiting, desk.scheduler.running) == (0, 1)
        desk.worker.end_transfer("t", prompt[:-1])
        assert desk.step() == Batch()
        assert lengths(desk.step()) == [("a", 4, 1)]
        desk.run()
        assert desk.tokens == {"a": alone(prompt, 6)}
        desk.add("b", prompt, 1)
        assert lengths(desk.step()) == [("b", 4, 1)]

    def test_if_they_fail_to_come_it_prefills_by_itself(self):
        (prompt,) = never_ending(1, 6, 5)
        desk = Desk()
        desk.add("a", prompt, 6, imported="link")
        desk.step()
        desk.worker.end_transfer("a", None)
        desk.step()
        assert lengths(desk.step()) == [("a", 0, 5)]
        desk.run()
        assert desk.tokens == {"a": alone(prompt, 6)}
        assert desk.scheduler.blocks_in_use == 0

    def test_others_are_served_meanwhile_and_it_takes_its_place_by_age(self):
        first, second = never_ending(2, 6)
        desk = Desk()
        desk.add("a", first, 6, imported="link")
        desk.add("b", second, 6)
        assert lengths(desk.step()) == [("b", 0, 3)]
        desk.worker.end_transfer("a", first[:-1])
        assert lengths(desk.step()) == [("b", 3, 1)]
        assert [name for name, *_ in lengths(desk.step())] == ["a", "b"]

    def test_one_token_needs_no_blocks_of_others_and_two_need_one(self):
        desk = Desk()
        desk.add("a", [1], 1, imported="link")
        desk.add("b", [1, 1], 1, imported="link")
        batch = desk.step()
        assert lengths(batch) == [("a", 0, 1)]
        assert batch is not None
        assert [len(transfer.table) for transfer in batch.fetch] == [1]

    def test_a_cancelled_one_keeps_its_blocks_until_nothing_comes_any_more(self):
        (prompt,) = never_ending(1, 6, 5)
        desk = Desk()
        desk.add("a", prompt, 6, imported="link")
        desk.step()
        assert desk.scheduler.cancel("a") is not None
        assert (desk.scheduler.unfinished, desk.scheduler.blocks_in_use) == (0, 2)
        assert desk.step() == Batch()
        desk.worker.end_transfer("a", prompt[:-1])
        desk.step()
        assert desk.scheduler.blocks_in_use == 0
        assert desk.step() is None

    def test_one_that_gave_its_blocks_back_computes_them_anew(self):
        first, second = never_ending(2, 10)
        desk = Desk(max_step_tokens=16)
        desk.add("a", first, 10)
        desk.add("b", second, 10, imported="link")
        desk.step()
        desk.worker.end_transfer("b", second[:-1])
        batches = desk.run()
        assert desk.scheduler.preemptions > 0
        assert not any(batch.fetch for batch in batches)
        assert desk.tokens == {"a": alone(first, 10), "b": alone(second, 10)}

    def test_what_is_lent_cannot_be_given_back_and_the_others_wait_for_it(self):
        (prompt,) = never_ending(1, 13)
        desk = self.exported()
        desk.add("b", prompt, 13)
        for _ in range(20):
            assert desk.step() is not None
        assert desk.scheduler.preemptions > 0
        assert "b" not in desk.finishes
        desk.worker.end_transfer("t", prompt)
        desk.run()
        assert desk.tokens["b"] == alone(prompt, 13)

    def test_a_transfer_has_ended_when_all_ranks_say_so(self):
        (prompt,) = never_ending(1, 6, 5)
        desk = Desk()
        desk.add("a", prompt, 6, imported="link")
        desk.step()
        for told in ([("a",), ()], [(), ("a",)]):
            batch = desk.scheduler.schedule()
            assert batch == Batch()
            desk.scheduler.update(batch, [StepResult([], done) for done in told])
        assert lengths(desk.scheduler.schedule()) == [("a", 4, 1)]


def test_settings_are_those_it_was_given():
    scheduler = Scheduler(EngineSettings(blocks=2, block_size=1))
    with pytest.raises(RequestRefused, match="of 2"):
        scheduler.add(Request("a", (1, 1), 2))
