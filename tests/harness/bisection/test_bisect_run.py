"""The whole search over made-up candidates: verified ends, skips, what is told, the sentence."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest

from killpoint.bisection.probe import Question, Reply
from killpoint.bisection.releases import Releases
from killpoint.bisection.result import Answer
from killpoint.bisection.run import bisect
from killpoint.errors import BadUsage, CannotWork

HELD, VIOLATED = Reply("held"), Reply("violated", "hang", "it hangs")
UNDECIDED = Reply("skipped", cause="inconclusive: its point was not reached")
BEHAVIOUR = {"h": HELD, "v": VIOLATED, "s": UNDECIDED}


def searched(line: str, *, good_is_older: bool, told: list[str] | None = None) -> Answer:
    """Releases 0, 1, … behave as the letters say; ``x`` cannot be had."""

    def ask(target: str) -> Reply:
        letter = line[int(target.removeprefix("own=="))]
        if letter == "x":
            raise CannotWork("no archive\nof it")
        return BEHAVIOUR[letter]

    names = [f"own=={number}" for number in range(len(line))]
    tell = (told if told is not None else list[str]()).append
    question = Question("Q1/story", ask)
    return bisect(question, Releases(names), good_is_older=good_is_older, tell=tell)


def test_the_release_that_broke_is_named():
    found = searched("hhhhvv", good_is_older=True)
    assert found.sentence == "Q1/story: held up to own==3, violated from own==4"
    assert (found.found, found.status(), len(found.tried)) == ("change", 0, 4)


def test_the_release_that_fixed_is_named():
    found = searched("vhhhhh", good_is_older=False)
    assert found.sentence == "Q1/story: violated up to own==0, held from own==1"


def test_what_cannot_be_judged_or_had_beside_the_change_leaves_a_range():
    told: list[str] = []
    found = searched("vvsxhh", good_is_older=False, told=told)
    assert found.sentence == (
        "Q1/story: violated up to own==1, held from own==4;"
        " between them could not be judged: own==2, own==3"
    )
    assert (found.found, found.status(), found.between) == ("range", 3, ["own==2", "own==3"])
    assert any("own==2: skipped" in line and "its point was not reached" in line for line in told)
    assert any("own==3: skipped" in line and "no archive of it" in line for line in told)


def test_each_step_tells_how_many_remain():
    told: list[str] = []
    searched("hhhhhhvvvv", good_is_older=True, told=told)
    assert [line.rpartition("; ")[2] for line in told[2:]] == [
        "8 releases between them, at most 4 steps without skips",
        "3 releases left, at most 2 steps without skips",
        "1 release left, at most 1 step without skips",
        "no release left",
    ]


def test_an_end_that_cannot_be_judged_ends_the_search():
    found = searched("shv", good_is_older=True)
    assert (found.found, found.status(), len(found.tried)) == ("nothing", 3, 1)
    assert "own==0 could not be judged: inconclusive: its point" in found.sentence


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("hsh", "held by own==0 and own==2"),
        ("vsv", "violated by own==0 and own==2"),
        ("vsh", "violated by own==0, given as good"),
    ],
)
def test_ends_that_do_not_differ_so_are_told(line: str, words: str):
    with pytest.raises(BadUsage, match=words):
        searched(line, good_is_older=True)


def test_an_end_that_cannot_be_had_is_no_answer():
    with pytest.raises(CannotWork):
        searched("xhv", good_is_older=True)


def test_a_candidate_is_had_only_while_it_is_asked():
    had: list[str] = []

    class Line:
        names, unit = ("a", "b"), "commit"

        def at(self, candidate: int) -> AbstractContextManager[str]:
            had.append(self.names[candidate])
            return nullcontext(self.names[candidate])

    question = Question("Q1/story", lambda target: HELD if target == "a" else VIOLATED)
    assert bisect(question, Line(), good_is_older=True, tell=had.append).found == "change"
    assert had[0] == "a"
    assert had[2] == "b"
