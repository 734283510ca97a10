"""What a load asks for is the same each time, and made to find blocks that are mixed up."""

from __future__ import annotations

from itertools import combinations

from killpoint.scenario import Load
from killpoint.systems.engine.load import asked, different, digest, prefixes
from killpoint.targets.engine_protocol import EngineShape

LOAD, SHAPE = Load(prompts=12, prompt_tokens=56, max_tokens=20, large_every=5), EngineShape()


def test_the_same_seed_asks_for_the_same() -> None:
    known = different(LOAD, SHAPE, 1)
    assert known == different(LOAD, SHAPE, 1)
    assert known != different(LOAD, SHAPE, 2)
    once = [asked(LOAD, SHAPE, known, 1, n) for n in range(40)]
    assert once == [asked(LOAD, SHAPE, known, 1, n) for n in range(40)]
    assert len({each.key for each in once}) > 6


def test_a_request_is_within_its_bounds_unless_it_is_to_be_too_large() -> None:
    known = different(LOAD, SHAPE, 1)
    for n in range(40):
        one = asked(LOAD, SHAPE, known, 1, n)
        too_large = n % 5 == 4
        assert (one.key < 0) == too_large
        assert (len(one.prompt) > SHAPE.blocks * SHAPE.block_size) == too_large
        assert too_large or 1 <= len(one.prompt) <= 56 + 9
        assert 1 <= one.max_tokens <= 20
        assert set(one.prompt) <= set(range(1, 256))


def test_prompts_share_beginnings_and_later_blocks_behind_others() -> None:
    size = SHAPE.block_size
    begins = later = 0
    for one, other in combinations(different(LOAD, SHAPE, 1), 2):
        blocks = [
            [each.prompt[at : at + size] for at in range(0, len(each.prompt) - size, size)]
            for each in (one, other)
        ]
        same = [left == right for left, right in zip(*blocks, strict=False)]
        begins += bool(same and same[0])
        later += any(at and alike and not all(same[:at]) for at, alike in enumerate(same))
    assert begins
    assert later


def test_a_digest_tells_tokens_and_their_order_apart() -> None:
    assert prefixes([5, 6]) == [digest([]), digest([5]), digest([5, 6])]
    assert len({digest([5, 6]), digest([6, 5]), digest([5]), digest([])}) == 4
