"""A scenario of a coordinator that cannot be played says where, and what was expected."""

from __future__ import annotations

import pytest

from killpoint.errors import BadUsage
from killpoint.scenario import dump, parse

HEAD = 'case = "C6/x"\njudges = ["C6"]\n'
COORDINATOR = "[coordinator]\nengines = 2\n"


def steps(*written: str) -> str:
    return "steps = [" + ", ".join(written) + "]\n"


def test_a_coordinators_roles_are_its_parent_itself_and_its_peers() -> None:
    shape = "[coordinator]\nengines = 2\nspares = 1\nfront_ends = 2\n"
    found = parse(HEAD + steps('{ do = "coordinator-start" }') + shape, "x")
    peers = ["engine-0", "engine-1", "engine-2", "front-end-0", "front-end-1"]
    assert found.roles() == ["parent", "coordinator", *peers]
    assert found.connecting() == peers
    assert found.named(("engines",)) == peers[:3]
    assert found.target_roles() == ["coordinator"]
    assert parse(dump(found), "x") == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (steps('{ do = "connect" }'), "connect without a coordinator"),
        (steps('{ do = "make" }') + COORDINATOR, "make of a coordinator"),
        (steps('{ do = "connect" }') + COORDINATOR + "[group]\nranks = 2\n", "a group beside"),
        (
            steps('{ do = "disconnect", roles = ["coordinator"] }') + COORDINATOR,
            "'coordinator', which takes no orders",
        ),
        (
            steps('{ do = "report-counts", role = "front-end-0", counts = [1, 1] }') + COORDINATOR,
            "no engine",
        ),
        (steps('{ do = "scale", role = "engine-0", engines = 3 }') + COORDINATOR, "a front end"),
        (
            steps('{ do = "forge", role = "front-end-0", lie = "unknown-rank" }') + COORDINATOR,
            "unknown-rank of 'front-end-0'",
        ),
        (
            steps('{ do = "wait-news", roles = ["front-ends"], what = "gone" }') + COORDINATOR,
            "`rank`",
        ),
        (
            steps('{ do = "fault", fault = "slow", role = "coordinator" }') + COORDINATOR,
            "expected one of: kill, stop",
        ),
        (
            steps('{ do = "fault", fault = "cut", role = "engine-0" }') + COORDINATOR,
            "expected `namespaces = true`",
        ),
        (
            steps(
                '{ do = "fault", fault = "kill", role = "parent", at = { op = "make", line = 1 } }'
            )
            + COORDINATOR,
            "a point in a coordinator's play",
        ),
        (steps('{ do = "connect", roles = ["reader-0"] }') + COORDINATOR, "no role 'reader-0'"),
    ],
)
def test_what_cannot_be_played_is_said(text: str, words: str) -> None:
    with pytest.raises(BadUsage, match="x") as told:
        parse(HEAD + text, "x")
    assert words in str(told.value)
