"""Replay files say in comments what happens, what is expected, and what their points count."""

from __future__ import annotations

import msgspec
import pytest

from killpoint.scenario import Fault, Message, Point, Scenario, Send, parse, replay_text

_AT = Point("send", line=8, nth=2)


def _killed(at: Point) -> Scenario:
    return Scenario("Q6/x", ["Q6"], [Fault("kill", "writer", at), Send([Message()])])


def _told(scenario: Scenario, **about: str) -> str:
    """The comments as one line."""
    lines = replay_text(scenario, **about).splitlines()
    return " ".join(line.lstrip("# ") for line in lines if line.startswith("#"))


@pytest.mark.parametrize(
    "at",
    [
        _AT,
        Point("send", name="overflow-marker"),
        Point("send", store=5),
        Point("send", line=3, depth="opcode"),
    ],
    ids=str,
)
def test_the_comments_leave_the_scenario_as_it_is(at: Point) -> None:
    scenario = _killed(at)
    text = replay_text(scenario, "a writer dies", 'it said "line = 1"\n[[steps]]')
    assert parse(text, "x.toml") == scenario


def test_what_happens_is_expected_and_was_seen_is_said() -> None:
    told = _told(_killed(_AT), summary="the writer is killed", cause="reader-0 was never told")
    assert told.startswith("Q6/x What happens: the writer is killed. The steps are taken from top")
    assert "What is expected: Q6 (MUST): A writer that dies at any instant:" in told
    assert "What was seen: reader-0 was never told" in told
    assert "ends with status 1 if that is seen again" in told


def test_above_each_number_of_a_point_it_is_said_what_it_counts() -> None:
    lines = replay_text(_killed(_AT)).splitlines()
    place = lines.index("line = 8")
    above = " ".join(line.lstrip("# ") for line in lines[place - 2 : place])
    assert above == (
        "line: counted from 0 over the lines of the target's own code that this send runs, in the"
        " order in which they run: no line number of a file"
    )
    assert lines[lines.index("nth = 2") - 1].startswith("# nth: in the how-many-th send")


def test_instructions_are_told_from_lines() -> None:
    told = _told(_killed(msgspec.structs.replace(_AT, depth="opcode")))
    assert "over the instructions of the target's own code" in told


def test_a_race_says_how_often_it_is_played() -> None:
    assert "How often" not in _told(_killed(_AT))
    raced = msgspec.structs.replace(_killed(_AT), plays=20)
    assert "How often: up to 20 plays, until one shows it" in _told(raced)
    assert parse(replay_text(raced), "x.toml") == raced
