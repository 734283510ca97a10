"""Blocks are taken, shared, found by what they hold, and given back."""

import pytest

from refengine.engine.core.blocks import ROOT_KEY, BlockPool, block_key


def named(pool: BlockPool, count: int) -> tuple[list[int], list[bytes]]:
    table = pool.take(count)
    assert table is not None
    keys = [ROOT_KEY]
    for number, block in enumerate(table):
        keys.append(block_key(keys[-1], [number]))
        pool.name(block, keys[-1])
    return table, keys[1:]


def test_no_block_is_taken_twice_and_all_can_be():
    pool = BlockPool(4)
    first, rest = pool.take(1), pool.take(3)
    assert first == [0]
    assert sorted([*(first or []), *(rest or [])]) == [0, 1, 2, 3]
    assert (pool.available, pool.in_use) == (0, 4)
    assert pool.take(1) is None
    assert pool.take(0) == []


def test_too_few_are_none_at_all():
    pool = BlockPool(2)
    assert pool.take(3) is None
    assert pool.available == 2


def test_a_key_says_what_a_block_holds_and_what_came_before():
    assert block_key(ROOT_KEY, [1, 2]) == block_key(ROOT_KEY, [1, 2])
    others = [
        block_key(ROOT_KEY, [2, 1]),
        block_key(block_key(ROOT_KEY, [1]), [2]),
        block_key(ROOT_KEY, [1, 2, 0]),
    ]
    assert len({block_key(ROOT_KEY, [1, 2]), *others}) == 4


def test_a_known_block_is_found_and_shared():
    pool = BlockPool(4)
    table, keys = named(pool, 2)
    assert pool.find(keys) == table
    assert pool.find([block_key(ROOT_KEY, [9]), *keys]) == []
    assert pool.find([keys[0], block_key(ROOT_KEY, [9]), keys[1]]) == table[:1]
    pool.release(table)
    assert pool.in_use == 2
    pool.release(table)
    assert pool.in_use == 1
    pool.release(table[:1])
    assert (pool.in_use, pool.available) == (0, 4)


def test_one_that_nobody_refers_to_is_found_until_it_is_needed():
    pool = BlockPool(3)
    table, keys = named(pool, 2)
    pool.release(table)
    assert pool.available == 3
    assert pool.find(keys) == table
    assert pool.available == 1
    pool.release(table)
    assert pool.take(3) is not None
    assert pool.find(keys) == []


def test_blank_ones_go_first_then_those_unused_for_longest_the_end_of_a_chain_first():
    pool = BlockPool(5)
    old, old_keys = named(pool, 2)
    young = pool.take(2) or []
    young_keys = [block_key(ROOT_KEY, [7]), block_key(block_key(ROOT_KEY, [7]), [7])]
    for block, key in zip(young, young_keys, strict=True):
        pool.name(block, key)
    pool.release(old)
    pool.release(young)
    assert pool.take(1) == [4]
    assert pool.take(1) == [old[1]]
    assert pool.find(old_keys) == old[:1]
    pool.release(old[:1])  # used just now: the young ones are older than that
    assert pool.take(1) == [young[1]]
    assert pool.take(1) == [young[0]]
    assert pool.take(1) == [old[0]]
    assert pool.find(old_keys) == pool.find(young_keys) == []


def test_a_second_block_with_the_same_content_is_not_known():
    pool = BlockPool(3)
    (one,), (key,) = named(pool, 1)
    (other,) = pool.take(1) or [0]
    pool.name(other, key)
    assert pool.find([key]) == [one]
    pool.release([one])
    pool.release([other])
    pool.release([one])
    assert pool.take(1) == [other]  # it was blank at once


def test_what_nobody_holds_cannot_be_given_back():
    pool = BlockPool(2)
    with pytest.raises(KeyError):
        pool.release([0])
