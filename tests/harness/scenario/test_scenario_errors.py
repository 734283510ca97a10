"""The line that is told is that of the key that is wrong, whatever else speaks of its word."""

from __future__ import annotations

import pytest

from killpoint.errors import BadUsage
from killpoint.scenario import parse


def _told(text: str) -> tuple[int, str]:
    with pytest.raises(BadUsage) as caught:
        parse(text, "dir/file.toml")
    line, _, rest = str(caught.value).removeprefix("dir/file.toml:").partition(": ")
    return int(line), rest


_ELSEWHERE = """\
# judges, start, count = 3 and kind = "x" are only spoken of here
title = "count = 3, timeout = 4, kind = arrya"
case = "R3/x"
judges = ["R3"]

[[steps]]
do = "receive"
count = 9

[[steps]]
do = "send"
messages = [
    { kind = "bytes" },
    # { kind = "arrya" }
    { kind = "bytes", size = 3 },
]
timeout = 1.0

[[steps]]
do = "wait"

[[steps]]
do = "receive"
count = 7

[shape]
readers = 1
"""


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("count = 7", 'count = "7"', 24),
        ("count = 9", "count = 0", 8),
        ("count = 7", "", 22),
        ('"bytes", size = 3', '"arrya", size = 3', 15),
        ('"bytes" }', '"arrya" }', 13),
        ("timeout = 1.0", "timeout = 9999.0", 17),
        ("readers = 1", "readers = 0", 27),
        ("readers = 1", "seed = 0", 27),
        ('case = "R3/x"', "case = 3", 3),
        ('do = "wait"', 'do = "wait"\ncount = 3', 21),
        ('do = "wait"', "", 19),
    ],
)
def test_a_line_is_found_among_others_that_speak_of_the_same_words(
    old: str, new: str, line: int
) -> None:
    assert _ELSEWHERE.count(old) == 1
    at, text = _told(_ELSEWHERE.replace(old, new))
    assert at == line, text
    assert "expected" in text


def test_steps_in_one_array_and_dotted_keys_are_found_too() -> None:
    text = """\
case = "R3/x"
judges = ["R3"]
"shape".readers = 1
steps = [
    { do = "send", messages = [{}, {}] },
    { do = "fault", fault = "kill", role = "writer", at = { op = "send", line = 1 } },
    { do = "receive", count = 1 },
]
"""
    parse(text, "x")
    for old, new, line in [
        ("count = 1", "count = 0", 7),
        ('op = "send"', 'op = "sned"', 6),
        ("readers = 1", "readers = 0", 3),
    ]:
        assert _told(text.replace(old, new))[0] == line
