"""Options of several commands: what they take, and what they refuse in which words."""

from argparse import ArgumentTypeError
from collections.abc import Callable

import pytest

from killpoint.arguments import jobs, names, seconds, seconds_or_none


def test_what_is_meant_is_taken() -> None:
    assert names(" R7, Q6/story,") == ["R7", "Q6/story"]
    assert jobs("4") == 4
    assert (seconds("1.5"), seconds_or_none("2"), seconds_or_none(" 0.0 ")) == (1.5, 2.0, 0.0)


@pytest.mark.parametrize(
    ("read", "text", "why"),
    [
        (names, " , ", "names nothing"),
        *((jobs, text, "expected 1 or more") for text in ("0", "-1", "1.5", "many")),
        *((seconds, text, "expected seconds above 0") for text in ("0", "-1", "inf", "nan", "x")),
        *((seconds_or_none, text, "expected seconds above 0") for text in ("-1", "soon")),
    ],
)
def test_what_makes_no_sense_is_refused(read: Callable[[str], object], text: str, why: str) -> None:
    with pytest.raises(ArgumentTypeError, match=why):
        read(text)
