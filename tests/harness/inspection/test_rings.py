"""Rings are found by their bytes, and their parties by what is known of the processes."""

import os

import pytest
from scene import cast, process

from killpoint.inspection import rings
from killpoint.inspection.regions import Region, shared
from killpoint.targets.refengine.ring_view import RefengineRings
from killpoint.targets.ring_view import Flags, RingView
from killpoint.targets.vllm.ring_view import VllmRings
from refengine.ring.ring import Ring

_MIB = 1 << 20


def reading(memory):
    return lambda at, n: bytes(memory[at : at + n])


def vllm_segment(readers, slots, chunk, *flags):
    return bytes(slots * chunk) + b"".join(map(bytes, flags)) + bytes(
        (slots - len(flags)) * (1 + readers)
    )  # fmt: skip


class TestRefengineRings:
    def test_flags_numbers_and_leavers_are_read_from_the_bytes(self):
        with_two = Ring.create(2, 64, 3)
        reader = Ring.attach(with_two.handle(), 1)
        for _ in range(2):
            with with_two.acquire_write(1.0):
                pass
        with reader.acquire_read(1.0):
            pass
        memory = with_two.segment.buf
        view = RefengineRings().decode(with_two.segment.name, len(memory), 2, reading(memory))
        assert view.slots[0] == Flags(True, (False, True), 0)
        assert view.slots[1] == Flags(True, (False, False), 1)
        assert not view.slots[2].written
        assert view.closed == ()
        reader.close()
        memory = with_two.segment.buf
        view = RefengineRings().decode(with_two.segment.name, len(memory), 2, reading(memory))
        assert view.closed == (1,)
        with_two.close()

    @pytest.mark.parametrize(
        "memory", [b"", b"refring\0", bytes(9000), b"refring\0" + b"\xff" * 99]
    )
    def test_other_memory_is_no_ring(self, memory):
        assert RefengineRings().decode("x", len(memory), 2, reading(memory)) is None


class TestVllmRings:
    @pytest.mark.parametrize(
        ("readers", "slots", "chunk"),
        [(1, 10, 24 * _MIB), (8, 10, 10 * _MIB), (2, 4, 4096)],
    )
    def test_a_size_is_explained(self, readers, slots, chunk):
        size = slots * (chunk + 1 + readers)
        flags = bytes([1, *[0] * readers]) + bytes((slots - 1) * (1 + readers))
        view = VllmRings().decode(
            "psm_1", size, readers + 1, lambda at, n: flags[at - slots * chunk :][:n]
        )
        assert (view.readers, len(view.slots)) == (readers, slots)
        assert view.slots[0] == Flags(True, (False,) * readers)

    def test_a_dead_reader_is_no_fewer_reader(self):
        memory = vllm_segment(2, 4, 4096, (1, 1, 0))
        view = VllmRings().decode("psm_1", len(memory), 2, reading(memory))
        assert view.readers == 2

    def test_flags_that_are_none_explain_nothing(self):
        memory = b"\7" * (10 * 4096 + 20)
        assert VllmRings().decode("psm_1", len(memory), 2, reading(memory)) is None

    def test_other_names_are_others(self):
        memory = vllm_segment(2, 4, 4096)
        assert VllmRings().decode("torch_1", len(memory), 2, reading(memory)) is None


class TestParties:
    def view(self, readers, **more):
        return RingView("vllm", readers, (Flags(True, (False,) * readers),), **more)

    def region(self, inode, *mappers):
        return Region(f"psm_{inode}", 1, mappers, (0,) * len(mappers), inode)

    def test_a_parent_writes_to_several_children(self):
        there = cast(process(10), process(20, 10), process(21, 10, age=9.0))
        (found,) = rings.rings([(self.region(1, 10, 20, 21), self.view(2))], there)
        assert (found.writer, found.reader_pids, found.guessed) == (10, {0: 20, 1: 21}, True)

    def test_a_child_answers_by_the_ring_that_was_made_later(self):
        there = cast(process(10), process(20, 10), process(21, 10))
        seen = [
            (self.region(1, 10, 20, 21), self.view(2)),
            (self.region(2, 10, 20), self.view(1)),
        ]
        assert [ring.writer for ring in rings.rings(seen, there)] == [10, 20]

    def test_who_is_seen_to_wait_for_a_slot_writes(self):
        there = cast(process(10), process(20, 10, "slot"))
        (found,) = rings.rings([(self.region(1, 10, 20), self.view(1))], there)
        assert (found.writer, found.reader_pids) == (20, {0: 10})

    def test_workers_that_say_their_rank_are_believed(self):
        there = cast(
            process(10),
            process(20, 10, command="refengine:1 · python"),
            process(21, 10, command="refengine:0 · python"),
        )
        (found,) = rings.rings([(self.region(1, 10, 20, 21), self.view(2, writer=10))], there)
        assert (found.reader_pids, found.guessed) == ({1: 20, 0: 21}, False)

    def test_with_one_missing_nobody_is_guessed(self):
        there = cast(process(10), process(20, 10))
        (found,) = rings.rings([(self.region(1, 10, 20), self.view(2, writer=10))], there)
        assert (found.reader_pids, found.missing) == ({}, 1)

    def test_a_reader_that_has_closed_is_not_missed(self):
        there = cast(process(10), process(20, 10))
        view = self.view(2, writer=10, closed=(0,))
        (found,) = rings.rings([(self.region(1, 10, 20), view)], there)
        assert (found.reader_pids, found.missing, found.slots[0].unread) == ({1: 20}, 0, (1,))


def test_memory_is_read_through_whoever_maps_it_even_when_its_name_is_gone():
    end = Ring.create(1, 64, 2)
    end.segment.unlink()
    regions = [r for r in shared([os.getpid()]) if r.name == end.segment.name]
    assert [region.read(0, 8) for region in regions] == [b"refring\0"]
    assert regions[0].size == len(end.segment.buf)
    end.close()
    with pytest.raises(OSError, match="nobody maps"):
        Region("x", 1, (), ()).read(0, 1)


def test_a_new_message_in_a_slot_is_seen_though_the_flags_are_as_before():
    memory = bytearray(vllm_segment(1, 10, _MIB, *[(1, 1)] * 10))
    view = VllmRings().decode("psm_1", len(memory), 2, reading(memory))
    at = _Held("psm_1", len(memory), (1, 2), (0, 0))
    at_rest = rings.contents([(at, view)], memory)
    assert rings.contents([(at, view)], memory) == at_rest
    memory[9 * _MIB + 7] = 1
    assert VllmRings().decode("psm_1", len(memory), 2, reading(memory)) == view
    assert rings.contents([(at, view)], memory) != at_rest


class _Held(Region):
    """A region whose bytes are those of ``proc``."""

    def read(self, offset, count, proc=None):
        return bytes(proc[offset : offset + count])
