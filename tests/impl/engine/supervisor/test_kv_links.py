"""KV links: made once both ends serve, used once both stand, gone with either."""

from refengine.engine.protocol import KvLinkResult, LinkKv, UnlinkKv
from refengine.engine.supervisor.kv_links import KvLinkTable, LinkDown, LinkUp, Notify


def pairing(prefills=("p",), decodes=("d",)):
    return KvLinkTable(prefills, decodes, lambda: ((7, 8), (b"k", b"l")))


def link_of(actions):
    return next(action.message.link for action in actions if isinstance(action, Notify))


def standing(made):
    made.serves("p")
    link = link_of(made.serves("d"))
    made.joined(KvLinkResult(link))
    assert made.joined(KvLinkResult(link)) == [LinkUp(link, "p", "d")]
    return link


def test_a_link_is_made_once_both_ends_serve():
    made = pairing()
    assert made.serves("d") == []
    told = made.serves("p")
    link = link_of(told)
    ends = [LinkKv(link, (7, 8), (b"k", b"l"), end) for end in (0, 1)]
    assert told == [Notify("p", ends[0]), Notify("d", ends[1])]


def test_it_stands_once_both_ends_say_so():
    made = pairing()
    made.serves("d")
    link = link_of(made.serves("p"))
    assert made.joined(KvLinkResult(link)) == []
    assert made.joined(KvLinkResult(link)) == [LinkUp(link, "p", "d")]


def test_every_prefill_replica_meets_every_decode_replica():
    made = pairing(("p", "q"), ("d", "e"))
    for name in ("p", "q", "d"):
        told = made.serves(name)
    assert [action.name for action in told] == ["p", "d", "q", "d"]
    assert [action.name for action in made.serves("e")] == ["p", "e", "q", "e"]


def test_a_link_falls_with_an_end_and_the_other_is_told():
    made = pairing()
    link = standing(made)
    assert made.left("p") == [LinkDown(link), Notify("d", UnlinkKv(link))]
    again = made.serves("p")
    assert link_of(again) != link
    assert made.joined(KvLinkResult(link)) == []


def test_one_that_does_not_stand_yet_does_not_fall():
    made = pairing()
    made.serves("p")
    link = link_of(made.serves("d"))
    made.joined(KvLinkResult(link))
    assert made.left("d") == [Notify("p", UnlinkKv(link))]
    assert made.left("p") == []


def test_a_link_that_fails_is_tried_again_a_few_times():
    made = pairing()
    made.serves("p")
    told = made.serves("d")
    for _ in range(2):
        link = link_of(told)
        told = made.joined(KvLinkResult(link, "no"))
        assert told[:2] == [Notify("p", UnlinkKv(link)), Notify("d", UnlinkKv(link))]
        told = told[2:]
        assert [action.message.end for action in told] == [0, 1]
    link = link_of(told)
    assert len(made.joined(KvLinkResult(link, "no"))) == 2
    assert made.settled
    assert made.joined(KvLinkResult(link)) == []
    assert made.left("d") == []
    link = link_of(made.serves("d"))
    assert len(made.joined(KvLinkResult(link, "no"))) == 4


def test_it_is_settled_while_nothing_is_being_made():
    made = pairing()
    assert made.settled
    made.serves("p")
    assert made.settled
    link = link_of(made.serves("d"))
    assert not made.settled
    made.joined(KvLinkResult(link))
    assert not made.settled
    made.joined(KvLinkResult(link))
    assert made.settled
    made.left("d")
    assert made.settled


def test_others_links_stay():
    made = pairing(("p",), ("d", "e"))
    made.serves("p")
    first, second = link_of(made.serves("d")), link_of(made.serves("e"))
    for link in (first, first, second):
        made.joined(KvLinkResult(link))
    assert made.left("d") == [LinkDown(first), Notify("p", UnlinkKv(first))]
    assert made.joined(KvLinkResult(second)) == [LinkUp(second, "p", "e")]
