"""Requests through a scheduler and a worker, against the model run alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refengine.engine.model.reference import reference_generate

from ..serving import TINY, Replica


def test_a_request_gets_the_tokens_that_the_model_alone_gives():
    replica = Replica()
    replica.add("a", b"Hello, world", 24)
    replica.run()
    assert replica.tokens == {"a": reference_generate(b"Hello, world", 24)}
    assert replica.finishes == {"a": "length"}


@pytest.mark.parametrize("blocks", [256, 12])
def test_many_together_get_what_each_gets_alone(blocks):
    replica = Replica(size=TINY, blocks=blocks, block_size=4, max_step_tokens=16, max_running=8)
    prompts = {f"r{n}": bytes(range(n, n + 3 * n % 29 + 1)) for n in range(20)}
    for name, prompt in prompts.items():
        replica.add(name, prompt, 10)
    replica.run()
    alone = {name: reference_generate(prompt, 10, TINY) for name, prompt in prompts.items()}
    assert replica.tokens == alone
    assert (replica.scheduler.preemptions > 0) == (blocks == 12)
    assert replica.scheduler.blocks_in_use == 0


@settings(max_examples=10, deadline=None)
@given(st.data())
def test_whoever_comes_and_goes_in_a_tiny_cache_all_others_get_their_tokens(data):
    replica = Replica(size=TINY, blocks=9, block_size=4, max_step_tokens=9, max_running=4)
    texts = st.lists(st.integers(0, 3), min_size=1, max_size=20)
    prompts: dict[str, list[int]] = {}
    for number in range(data.draw(st.integers(2, 9), label="requests")):
        name = f"r{number}"
        prompts[name] = data.draw(texts)
        replica.add(name, prompts[name], 12)
        for _ in range(data.draw(st.integers(0, 4), label="steps")):
            replica.step()
        gone = replica.scheduler.cancel(f"r{data.draw(st.integers(0, 15), label='cancelled')}")
        replica.note([gone] if gone else [])
    replica.run()
    assert replica.scheduler.blocks_in_use == 0
    for name, prompt in prompts.items():
        found = replica.tokens[name]
        if replica.finishes[name] == "cancelled":
            assert found == reference_generate(prompt, len(found), TINY)
        else:
            assert found == reference_generate(prompt, 12, TINY)
