"""Dialogues: the stop strings that places give, what a seed draws, and how a program is shrunk."""

from __future__ import annotations

from typing import cast

import pytest

from killpoint.scenario import Scenario, dump, parse
from killpoint.search.case_run import CaseRun, Violated
from killpoint.search.generated import smaller
from killpoint.systems.server.generated import candidates
from killpoint.systems.server.generator import program
from killpoint.systems.server.load.answer import Answer
from killpoint.systems.server.load.dialogue import stop_strings
from killpoint.systems.server.load.http_reply import HttpReply
from killpoint.systems.server.steps import (
    Exchange,
    ServerDesertion,
    ServerDialogue,
    ServerStart,
    StopAt,
)


@pytest.mark.parametrize(
    ("text", "stop", "strings"),
    [
        ("abcdef", StopAt(end=100, length=2), ["ef"]),
        ("abcdef", StopAt(end=50, length=2), ["bc"]),
        ("abc\ufffd", StopAt(end=100, length=2), ["bc"]),
        ("a\ufffdb\ufffd", StopAt(end=100, length=2), ["b"]),
        ("abcdef", StopAt(end=100, length=4, beside=True), ["cdef", "de\u2603"]),
        ("abc", StopAt(end=1, length=8), ["a"]),
        ("\ufffd", StopAt(), []),
        ("", StopAt(), []),
    ],
)
def test_a_place_gives_a_stop_string(text: str, stop: StopAt, strings: list[str]) -> None:
    assert stop_strings(text, stop) == strings


def test_a_program_is_one_start_and_every_kind_of_client_and_is_its_seeds() -> None:
    made = program("H7/generated", 3, 0, "tensor-parallel")
    dialogue = made.steps[1]
    assert isinstance(dialogue, ServerDialogue)
    assert len(dialogue.exchanges) > 40
    assert {each.leaves for each in dialogue.exchanges} >= {"head", "body", "piece", "choice"}
    assert {each.wrong for each in dialogue.exchanges} >= {"json", "model", "last-prompt"}
    desertion = made.steps[2]
    assert isinstance(desertion, ServerDesertion)
    assert sorted(desertion.clients) == ["choice", "last-prompt"]
    assert program("H7/generated", 3, 0, "tensor-parallel") == made
    assert program("H7/generated", 4, 0, "tensor-parallel") != made
    assert parse(dump(made), "x").steps == made.steps


class _Convicting:
    """A case run that convicts dialogues which have all of these clients."""

    def __init__(self, needed: list[Exchange]) -> None:
        self.needed, self.least = needed, list[Exchange]()
        self.scenario: Scenario | None = None

    def play(self, scenario: Scenario) -> None:
        exchanges = [
            each
            for step in scenario.steps
            if isinstance(step, ServerDialogue)
            for each in step.exchanges
        ]
        if all(each in exchanges for each in self.needed):
            self.least, self.scenario = exchanges, scenario
            raise Violated("a lie")


def test_clients_that_do_not_matter_are_left_out() -> None:
    made = program("H7/generated", 3, 0, "tensor-parallel")
    (dialogue,) = [step for step in made.steps if isinstance(step, ServerDialogue)]
    run = _Convicting([dialogue.exchanges[7], dialogue.exchanges[30]])
    smaller(cast("CaseRun", run), candidates(made), 60.0)
    assert run.least == run.needed
    assert run.scenario is not None
    assert [type(step) for step in run.scenario.steps] == [ServerStart, ServerDialogue]


def test_a_dialogue_that_does_not_matter_is_left_out() -> None:
    made = program("H7/generated", 3, 0, "tensor-parallel")
    run = _Convicting([])
    smaller(cast("CaseRun", run), candidates(made), 60.0)
    assert run.scenario is not None
    assert [type(step) for step in run.scenario.steps] == [ServerStart, ServerDesertion]


def test_nothing_smaller_is_played_when_the_time_is_over() -> None:
    made = program("H7/generated", 3, 0, "tensor-parallel")
    run = _Convicting([])
    smaller(cast("CaseRun", run), candidates(made), 0.0)
    assert run.least == []


def test_an_answer_has_each_completion_and_its_ends() -> None:
    reply, answer = HttpReply(), Answer()
    event = 'data: {"choices": [{"index": %d, "text": "%s", "finish_reason": %s}]}\n\n'
    body = event % (0, "a", "null") + event % (1, "b", '"stop"') + event % (0, "c", '"length"')
    body += event % (1, "late", "null") + "data: [DONE]\n\ndata: [DONE]\n\n"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}"
    reply.feed((head + "\r\n\r\n" + body).encode())
    answer.take(reply)
    assert (answer.choices[0].text, answer.choices[0].finish) == ("ac", "length")
    assert (answer.choices[0].after, answer.choices[1].after) == (False, True)
    assert (answer.done, answer.after_done) == (2, True)
