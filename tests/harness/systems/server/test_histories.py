"""The judge of dialogues: each of its rules convicts a made-up history, and acquits the proper."""

from __future__ import annotations

from typing import Any

import pytest
from server_tape import ServerTape

from killpoint.checkers.finding import Inconclusive

TEXT = "aabcd"


class _Dialogue(ServerTape):
    """A control of two prompts, and exchanges one after another."""

    def __init__(self, *, used: int = 5) -> None:
        super().__init__()
        self._n = 0
        control = {"tokens": 5, "text": TEXT, "finish": "length", "used": used, "read": 3}
        self.at(1.1, "spoken", prompt=0, **control)
        self.at(1.1, "spoken", prompt=1, **control | {"text": "zyx", "finish": "stop"})
        self.at(1.2, "marked", yes=True)

    def ended(self, end: str = "whole", **more: object) -> _Dialogue:
        """A client asks, and its request ends so."""
        self._n += 1
        facts: dict[str, object] = {"said": [[0, 5]], "stops": [], "wrong": "", "leaves": ""}
        asked = {key: more.pop(key) for key in list(more) if key in (*facts, "pace", "stream")}
        self.at(1.9, "exchange", n=self._n, **facts | asked)
        got: dict[str, object] = {"choices": {"0": [TEXT, "length", False]}, "status": 200}
        got |= {"why": "", "used": [3, 5, 8], "done": 1, "after": False, "streamed": True}
        self.at(2.0, "exchange-end", n=self._n, end=end, **got | more)
        return self

    def said(self, text: str, finish: str, **more: object) -> _Dialogue:
        """It was answered with this completion."""
        return self.ended(choices={"0": [text, finish, False]}, used=[None] * 3, **more)


def _kind(tape: ServerTape) -> str:
    found = tape.violation("H7")
    return found.kind if found is not None else "held"


def test_a_proper_dialogue_holds_and_is_counted() -> None:
    tape = _Dialogue().ended().said("aab", "stop", stops=["cd"]).said("", "stop", stops=["aabcd"])
    two = {"0": [TEXT, "length", False], "1": ["zyx", "stop", False]}
    tape.ended(said=[[0, 5], [1, 5]], choices=two, used=[6, 10, 16])
    tape.ended("left", leaves="piece").ended("closed").ended("error", status=429)
    tape.ended("error", status=400, wrong="json").ended(wrong="model").ended(wrong="prompt")
    tape.ended("torn", pace="half-closes").at(9.0, "settled", open=0.0, s=0.1)
    found = tape.judged("H7")
    assert not found.violations
    assert found.counts["exchanges"] == 11
    assert found.counts["completions"] == 5


@pytest.mark.parametrize(
    ("kind", "word", "how"),
    [
        ("hang", "gave up", {"end": "hang"}),
        ("hang", "no JSON", {"end": "hang", "wrong": "json"}),
        ("no-error", "not 4xx", {"end": "error", "status": 500, "wrong": "json"}),
        ("no-error", "not 4xx", {"wrong": "json"}),
        ("lost", "torn", {"end": "torn"}),
        ("lost", "error", {"end": "error", "status": 500}),
        ("lost", "1 completions of 2", {"said": [[0, 5], [1, 5]]}),
        ("duplicate", "after its finish", {"choices": {"0": [TEXT, "length", True]}}),
        ("wrong-data", "one end", {"done": 2}),
        ("wrong-data", "one end", {"done": 0}),
        ("wrong-data", "one end", {"after": True}),
        ("wrong-data", "prompt tokens", {"used": [4, 5, 9]}),
        ("wrong-data", "completion tokens", {"used": [3, 4, 7]}),
        ("wrong-data", "its sum", {"used": [3, 5, 9]}),
    ],
)
def test_a_wrong_end_is_convicted(kind: str, word: str, how: dict[str, Any]) -> None:
    found = _Dialogue().ended(**how).violation("H7")
    assert found is not None
    assert (found.kind, word in found.cause) == (kind, True), found.cause


@pytest.mark.parametrize(
    ("text", "finish", "stops", "kind"),
    [
        ("aabcx", "length", [], "wrong-data"),
        ("aab", "length", [], "lost"),
        (TEXT, "stop", [], "wrong-data"),
        (TEXT, "length", ["bc"], "wrong-data"),
        ("aabc", "length", ["d"], "wrong-data"),
        ("a", "stop", ["bc"], "lost"),
        ("aa", "stop", ["bc", "cd"], "held"),
        ("aab", "stop", ["bc", "cd"], "wrong-data"),
    ],
)
def test_completions_end_where_the_control_says(
    text: str, finish: str, stops: list[str], kind: str
) -> None:
    assert _kind(_Dialogue().said(text, finish, stops=stops)) == kind


def test_tokens_of_several_characters_may_end_at_either_of_two_stop_strings() -> None:
    assert _kind(_Dialogue(used=2).said("aab", "stop", stops=["bc", "cd"])) == "held"


def test_what_is_held_for_nobody_is_a_leak_after_five_seconds() -> None:
    assert _kind(_Dialogue().ended().at(9.0, "settled", open=3.0, s=6.0)) == "leak"
    assert _kind(_Dialogue().ended().at(9.0, "settled", open=3.0, s=4.0)) == "held"
    assert _kind(_Dialogue().ended().at(9.0, "settled", open=0.0, s=6.0)) == "held"


def _left(*counts: float, every: float = 0.5, until: float = 10.0) -> _Dialogue:
    """A client has left all of its prompts, and from 5 s on the server counts so many requests."""
    tape = _Dialogue()
    tape.at(10.0, "deserted", how="choice", end="left", status=200, prompts=100, characters=512)
    for number, held in enumerate((100.0, *counts)):
        tape.at(15.2 + number * every, "gauge", open=held, s=0.1)
    tape.at(10.0 + until, "settled", open=0.0, s=until)
    return tape


def test_requests_that_are_computed_one_after_another_for_nobody_are_a_leak() -> None:
    found = _left(93.0, 80.0).violation("H7")
    assert found is not None
    assert found.kind == "leak"
    assert _kind(_left(93.0, every=4.0)) == "leak"


def test_what_is_over_within_five_seconds_is_no_leak() -> None:
    assert _kind(_left(93.0, until=4.9)) == "held"


def test_a_count_that_may_be_as_old_as_the_hang_up_says_nothing() -> None:
    assert _kind(_left(100.0, 100.0, 0.0)) == "held"
    assert _kind(_left(1.0, 0.0)) == "held"


def test_counts_before_five_seconds_have_passed_are_none_of_a_leak() -> None:
    tape = _left().at(12.0, "gauge", open=99.0, s=0.1).at(14.0, "gauge", open=98.0, s=0.1)
    assert _kind(tape) == "held"
    assert _kind(_left().at(15.3, "gauge", open=93.0, s=0.5)) == "held"


def test_what_a_starved_machine_took_is_allowed_beyond_five_seconds() -> None:
    tape = _left(93.0, 80.0).at(16.0, "late-tick", ns=3_000_000_000)
    assert _kind(tape) == "held"


def test_a_leak_after_any_of_several_clients_is_told() -> None:
    tape = _Dialogue().ended().at(9.0, "settled", open=0.0, s=0.1)
    tape.at(12.0, "deserted", how="last-prompt", end="ended", status=400)
    tape.at(27.0, "settled", open=3.0, s=15.0)
    assert _kind(tape) == "leak"


def test_deserting_clients_alone_are_a_dialogue_if_they_left_something() -> None:
    found = _Dialogue().at(10.0, "deserted", how="choice", end="left", status=200).judged("H7")
    assert found.counts["deserted"] == 1
    for end, status in (("gave-up", 200), ("torn", 0), ("ended", 400)):
        with pytest.raises(Inconclusive):
            _Dialogue().at(9.0, "deserted", how="choice", end=end, status=status).judged("H7")


def test_no_dialogue_and_no_answer_say_nothing() -> None:
    for tape in (_Dialogue(), _Dialogue().ended("left", leaves="head")):
        with pytest.raises(Inconclusive):
            tape.judged("H7")
