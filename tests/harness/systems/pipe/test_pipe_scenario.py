"""A scenario of a pipe that cannot be played says where, and what was expected."""

from __future__ import annotations

import pytest

from killpoint.errors import BadUsage
from killpoint.scenario import dump, parse

HEAD = 'case = "K1/x"\njudges = ["K1"]\n'
PIPE = "[pipe]\nsize = 2\n"


def steps(*written: str) -> str:
    return "steps = [" + ", ".join(written) + "]\n"


def test_a_pipes_roles_are_its_ranks() -> None:
    found = parse(HEAD + steps('{ do = "pipe-open" }') + "[pipe]\nsize = 3\n", "x")
    assert found.roles() == ["pipe-0", "pipe-1", "pipe-2"]
    assert found.connecting() == ["pipe-1", "pipe-2"]
    assert parse(dump(found), "x") == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (steps('{ do = "pipe-open" }'), "pipe-open without a pipe"),
        (steps('{ do = "make" }') + PIPE, "make of a pipe"),
        (steps('{ do = "pipe-open", roles = ["reader-0"] }') + PIPE, "no role 'reader-0'"),
        (steps('{ do = "pipe-open" }') + PIPE + "[group]\nranks = 2\n", "a group beside a pipe"),
        (
            steps(
                '{ do = "fault", fault = "kill", role = "pipe-0", at = { op = "send", line = 1 } }'
            )
            + PIPE,
            "expected one of: pipe-open",
        ),
        (
            steps(
                '{ do = "fault", fault = "slow", role = "pipe-0", at = { op = "carry", line = 1 } }'
            )
            + PIPE,
            "of a carrying thread",
        ),
        (
            steps('{ do = "pipe-send", role = "pipe-0", tensors = [{ dtype = "int7" }] }') + PIPE,
            "dtype",
        ),
    ],
)
def test_what_cannot_be_played_is_said(text: str, words: str) -> None:
    with pytest.raises(BadUsage, match="x") as told:
        parse(HEAD + text, "x")
    assert words in str(told.value)
