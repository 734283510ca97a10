"""What comes of each thread of a wait graph, and where its chains end."""

from scene import cast, process

from killpoint.inspection.wait_graph import Fate, Graph, Node, Party


def waits(pid, *on, tid=None, **more):
    """A thread that waits for any of these processes or (pid, tid), each with a doubt or none."""
    parties = tuple(
        each if isinstance(each, Party) else Party(*each) if isinstance(each, tuple)
        else Party(each) for each in on
    )  # fmt: skip
    told = {"what": "waits", "waits": True, **more}
    return Node(pid, tid or pid, "MainThread", parties=parties, **told)


def is_(pid, fate, tid=None, **more):
    what = "runs" if fate else "is stopped"
    return Node(pid, tid or pid, "MainThread", what=what, fate=fate, **more)


def judged(*nodes, processes=()):
    there = cast(*(process(pid) for pid in sorted({node.pid for node in nodes})), *processes)
    graph = Graph(nodes, there)
    pids = list(there)
    return graph.vain(pids), graph.unsure(pids), graph.resting(pids)


def test_whoever_waits_for_one_who_goes_on_rests_along_a_chain():
    assert judged(waits(1, 2), waits(2, 3), is_(3, Fate.GOES)) == ([], [], 2)


def test_one_of_several_who_goes_on_is_enough():
    assert judged(waits(1, 2, 3), is_(2, Fate.VAIN), is_(3, Fate.GOES))[2] == 1


def test_the_stopped_end_of_a_chain_is_named_with_all_who_wait():
    (culprit,), unsure, _ = judged(waits(1, 2), waits(2, 3), is_(3, Fate.VAIN))
    assert (culprit.pid, culprit.waiters, unsure) == (3, (1, 2), [])


def test_who_waits_for_nobody_is_the_end():
    (culprit,), _, _ = judged(waits(1, 2), waits(2, alone="nobody holds it"))
    assert culprit.pid is None
    assert "pid 2" in culprit.sentence
    assert culprit.sentence.endswith("waits: nobody holds it")
    assert culprit.waiters == (1, 2)


def test_a_circle_is_told_once_from_its_lowest_pid():
    (culprit,), _, _ = judged(waits(2, 1), waits(1, 3), waits(3, 2), waits(4, 3))
    assert culprit.sentence.startswith("each other: pid 1 ")
    assert [culprit.sentence.count(f"pid {pid} ") for pid in (1, 2, 3, 4)] == [1, 1, 1, 0]


def test_a_circle_with_a_way_out_is_none():
    assert judged(waits(1, 2), waits(2, 1, 3), is_(3, Fate.GOES)) == ([], [], 2)


def test_a_dead_party_is_the_end():
    (culprit,), _, _ = judged(waits(1, 9), processes=[process(9, 1, state="Z")])
    assert (culprit.pid, culprit.waiters) == (9, (1,))
    assert culprit.sentence.endswith("is dead")


def test_a_party_in_doubt_is_worth_no_more_than_that():
    vain, (told,), resting = judged(waits(1, (2, None, "who holds it?")), is_(2, Fate.GOES))
    assert (vain, resting) == ([], 0)
    assert told.endswith("; who holds it?")


def test_a_party_in_doubt_that_is_stopped_is_still_the_end():
    (culprit,), unsure, _ = judged(waits(1, (2, None, "who holds it?")), is_(2, Fate.VAIN))
    assert (culprit.pid, unsure) == (2, [])


def test_who_sleeps_for_long_cannot_be_counted_on():
    nap = Node(2, 2, "MainThread", what="sleeps for 600 s", fate=Fate.UNSURE)
    _, (told,), _ = judged(waits(1, 2), nap)
    assert "sleeps for 600 s" in told


def test_who_waits_for_one_in_doubt_is_not_told_beside_that_one():
    blind = waits(2, worst=Fate.UNSURE, doubt="hidden")
    _, told, _ = judged(waits(1, 2), blind)
    assert [text.startswith("pid 2 ") for text in told] == [True]


def test_a_servant_is_nobodys_other_party():
    servant = is_(2, Fate.GOES, tid=20, servant=True)
    (culprit,), _, _ = judged(waits(1, 2), waits(2, alone="nobody holds it"), servant)
    assert "pid 2" in culprit.sentence


def test_who_joins_one_of_several_rests_only_if_all_go_on():
    both = [is_(1, Fate.GOES, tid=2), is_(1, Fate.GOES, tid=3)]
    assert judged(waits(1, (1, 2), (1, 3), every=True), *both)[2] == 1
    both[1] = is_(1, Fate.VAIN, tid=3)
    vain, _, resting = judged(waits(1, (1, 2), (1, 3), every=True), *both)
    assert (vain, resting) == ([], 0)


def test_a_thread_is_not_its_own_other_party():
    (culprit,), _, _ = judged(waits(1, 1, alone="it has both ends"))
    assert culprit.waiters == (1,)


def test_what_the_rings_tell_is_not_told_twice():
    assert judged(waits(1, told=True))[0] == []


def test_who_waits_for_one_outside_of_the_tree_who_cannot_be_told_of_is_told():
    blind = waits(2, worst=Fate.UNSURE, doubt="hidden")
    graph = Graph([waits(1, 2), blind], cast(process(1), process(2)))
    (told,) = graph.unsure([1])
    assert told.startswith("pid 1 ")
    assert "pid 2 " in told
    assert told.endswith("hidden")


def test_a_circle_of_doubt_is_told_of_once():
    nap = Node(3, 3, "MainThread", what="sleeps for 600 s", fate=Fate.UNSURE)
    graph = Graph([waits(1, 2), waits(2, 1, 3), nap], cast(*map(process, (1, 2, 3))))
    (told,) = graph.unsure([1, 2, 3])
    assert told.startswith("pid 2 ")
    assert len(graph.unsure([1])) == 1
