"""Who waits for whom, and who is to blame, from what a look found."""

import msgspec
from scene import cast, process, ring, thread

from killpoint.inspection import ring_waits
from killpoint.inspection.model import Edge, Process


def judged(processes, rings, unmoved=("psm_1",)):
    found = ring_waits.edges(processes, rings)
    return found, ring_waits.culprits(processes, rings, found, frozenset(unmoved))


class TestEdges:
    def test_a_writer_waits_for_the_readers_that_are_furthest_behind(self):
        there = cast(process(10, waits="slot"), process(20, 10), process(21, 10))
        (edge,) = ring_waits.edges(there, [ring((0, 1), (1,))])
        assert (edge.waiter, edge.on) == (10, 21)
        assert "reader 1 of psm_1 has not read slot 0 (message 0), nor 1 more of 2" in edge.why

    def test_a_reader_of_an_empty_ring_waits_for_its_writer(self):
        there = cast(process(10), process(20, 10, "message"), process(21, 10))
        (edge,) = ring_waits.edges(there, [ring((1,), None)])
        assert (edge.waiter, edge.on) == (20, 10)

    def test_a_reader_that_has_a_message_waits_for_nobody(self):
        there = cast(process(10), process(20, 10, "message"), process(21, 10))
        assert ring_waits.edges(there, [ring((0, 1), None)]) == []

    def test_a_reader_whose_writer_is_gone_waits_for_nobody_that_is_there(self):
        there = cast(process(20, 1, "message"), process(21))
        (edge,) = ring_waits.edges(there, [ring(None, mappers=(20, 21))])
        assert edge.on is None
        assert "whose writer is gone" in edge.why

    def test_who_is_in_a_collective_waits_for_those_who_are_not(self):
        there = cast(process(10), process(20, 10, "collective all_reduce"), process(21, 10))
        (edge,) = ring_waits.edges(there, [ring(None)])
        assert edge == Edge(20, 21, "it has not entered all_reduce", ring="psm_1")

    def test_all_in_the_same_collective_wait_for_nobody(self):
        both = (process(20, 10, "collective barrier"), process(21, 10, "collective barrier"))
        assert ring_waits.edges(cast(process(10), *both), [ring(None)]) == []

    def test_without_a_ring_brothers_that_run_python_are_the_peers(self):
        zygote = Process(22, 10, "zygote", "S", 9.0)
        there = cast(process(20, 10, "collective barrier"), process(21, 10), zygote)
        assert [edge.on for edge in ring_waits.edges(there, [])] == [21]

    def test_the_stopped_wait_for_nobody(self):
        there = cast(process(10), process(20, 10, "message", state="T"))
        assert ring_waits.edges(there, [ring(None)]) == []


class TestCulprits:
    def test_a_stopped_one_comes_before_whoever_is_busy(self):
        there = cast(process(10, waits="slot"), process(20, 10), process(21, 10, state="T"))
        _, found = judged(there, [ring((0, 1), (0, 1))])
        assert [culprit.pid for culprit in found] == [21, 20]
        assert found[0].waiters == (10,)

    def test_waits_are_followed_to_their_end(self):
        there = cast(process(10, waits="slot"), process(20, 10, "message"), process(21, 10))
        _, (culprit,) = judged(there, [ring((1,), (1,))])
        assert (culprit.pid, culprit.waiters) == (21, (10, 20))
        assert "work (engine.py:1)" in culprit.sentence

    def test_a_sleeper_beside_its_message_was_not_woken(self):
        there = cast(process(10), process(20, 10, "message"), process(21, 10))
        _, found = judged(there, [ring((0,), None)])
        assert "its wake-up was lost" in found[0].sentence
        assert found[0].pid == 20

    def test_a_message_that_came_just_now_is_no_lost_wake_up(self):
        there = cast(process(10), process(20, 10, "message"), process(21, 10))
        assert judged(there, [ring((0,), None)], unmoved=())[1] == []

    def test_guessed_ranks_convict_nobody_while_another_order_explains_it(self):
        there = cast(process(10), process(20, 10, "message"), process(21, 10))
        assert judged(there, [ring((0,), None, guessed=True)])[1] == []

    def test_more_sleepers_than_readers_without_a_message_do_convict(self):
        both = (process(20, 10, "message"), process(21, 10, "message"))
        _, found = judged(cast(process(10), *both), [ring((0,), None, guessed=True)])
        assert found[0].pid == 20

    def test_a_reader_that_is_gone_is_told_as_such(self):
        there = cast(process(10, waits="slot"), process(20, 10))
        _, (culprit,) = judged(there, [ring((1,), (1,), pids={}, mappers=(10, 20))])
        assert culprit.pid is None
        assert "1 of its 2 readers no longer maps it" in culprit.sentence

    def test_a_dead_process_matters_if_somebody_waits_for_it(self):
        dead = process(21, 10, state="Z")
        there = cast(process(10, waits="slot"), process(20, 10), dead)
        assert judged(there, [ring((1,), (1,))])[1][0].sentence.endswith("is dead")
        assert judged(cast(process(10), dead), [])[1] == []

    def test_children_that_wait_for_work_make_nobody_guilty(self):
        both = (process(20, 10, "message"), process(21, 10, "message"))
        found, blamed = judged(cast(process(10), *both), [ring(None)])
        assert [edge.idle for edge in found] == [True, True]
        assert blamed == []
        stopped = judged(cast(process(10, state="T"), *both), [ring(None)])[1]
        assert [culprit.pid for culprit in stopped] == [10]

    def test_a_parent_that_waits_for_an_answer_does(self):
        there = cast(process(10, waits="message"), process(20, 10))
        answers = ring(None, readers=1, writer=20, pids={0: 10}, mappers=(10, 20))
        assert [culprit.pid for culprit in judged(there, [answers])[1]] == [20]

    def test_nobody_waits_nobody_is_to_blame(self):
        assert judged(cast(process(10), process(20), process(21)), [ring(None)]) == ([], [])

    def test_the_main_thread_speaks_for_a_process(self):
        busy = (thread(at="beside (a.py:1)", name="beside"), thread(at="work (b.py:2)"))
        there = cast(process(20, 1, "message"), Process(10, 1, "python", "R", 9.0, busy))
        _, (culprit,) = judged(there, [ring(None)])
        assert culprit.sentence.endswith("is at work (b.py:2)")


class TestWhoRuns:
    there = cast(process(10, waits="message"), process(20, 10, "", "R"))
    rings = (ring((), readers=1, writer=20, pids={0: 10}, mappers=(10, 20)),)

    def told(self, moving=(), running=()):
        found = ring_waits.edges(self.there, self.rings)
        assert [(edge.waiter, edge.on) for edge in found] == [(10, 20)]
        moving, running = frozenset(moving), frozenset(running)
        blamed = ring_waits.culprits(self.there, self.rings, found, moving=moving, running=running)
        return [c.pid for c in blamed], ring_waits.computing(self.there, found, moving, running)

    def test_whoever_moves_the_ring_is_not_accused(self):
        assert self.told(moving=["psm_1"], running=[20]) == ([], [])

    def test_whoever_runs_and_moves_nothing_is_no_culprit_and_no_all_clear(self):
        blamed, computing = self.told(running=[20])
        (doubt,) = ring_waits.unsure(computing)
        assert blamed == []
        assert doubt.startswith("pid 20 (python engine.py) runs, and is at work (engine.py:1); 1 ")

    def test_whoever_sleeps_elsewhere_is_to_blame(self):
        assert self.told(moving=["psm_2"]) == ([20], [])

    def test_who_is_answered_in_one_of_its_rings_does_not_wait_for_the_others(self):
        there = cast(*self.there.values(), process(21, 10, "", "R"))
        more = {"readers": 1, "pids": {0: 10}, "mappers": (10, 20, 21)}
        both = (ring((), writer=20, **more), ring((), writer=21, **more))
        both = (both[0], msgspec.structs.replace(both[1], name="psm_2"))
        found = ring_waits.edges(there, both)
        assert [edge.on for edge in found] == [20, 21]
        moving, running = frozenset(["psm_1"]), frozenset([20, 21])
        assert ring_waits.computing(there, found, moving, running) == []
        assert ring_waits.culprits(there, both, found, moving=moving) == []
        assert len(ring_waits.computing(there, found, frozenset(), running)) == 2


class TestSeveralRings:
    there = cast(process(10, waits="message"), process(20, 10, "message"), process(21, 10))
    told = ring((0,), readers=1, writer=20, pids={0: 10}, mappers=(10, 20))
    quiet = msgspec.structs.replace(
        ring(None, readers=1, writer=21, pids={0: 10}, mappers=(10, 21)), name="psm_2"
    )

    def test_a_message_in_the_only_ring_that_one_reads_is_a_lost_wake_up(self):
        assert ring_waits.overlooked(self.there, self.told, [self.told]) == [(10, 0)]

    def test_who_reads_an_empty_ring_beside_it_may_wait_for_that_one(self):
        both = [self.told, self.quiet]
        assert ring_waits.overlooked(self.there, self.told, both) == []
        assert [edge.on for edge in ring_waits.edges(self.there, both)] == [21]
