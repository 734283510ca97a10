"""Edits of a source file by its syntax."""

from __future__ import annotations

import pytest

from killpoint.targets.edits import DoesNotFit, Edits, added, around, calls, statement

SOURCE = '''"""Doc: ä."""
from __future__ import annotations
import zmq


class Queue:
    """A queue."""

    def send(self, obj, timeout=None):
        """Send: ö."""
        text = "ü"; self.socket.send(obj, copy=False)
        return text

    @property
    def size(self):
        def check():
            return self.n
        return check()
'''


def edited(change: str) -> str:
    """What is between the markers of one edit, made by the code in ``change``."""
    edits = Edits(SOURCE)
    exec(change, {"edits": edits, "calls": calls, "around": around, "statement": statement})
    return edits.text()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("edits.begin(edits.function('Queue.send'), 'a = 1\\nb = 2')", 'ö."""\n        a = 1\n'),
        ("edits.top('import os')", "annotations\nimport os\nimport zmq"),
        ("edits.before(edits.function('Queue.size'), 'x = 1')", "    x = 1\n    @property"),
        ("edits.begin(edits.function('Queue.size.check'), 'pass')", "            pass\n"),
        (
            "edits.keyword(calls(edits.klass('Queue'), 'send')[0], 'copy', 'True')",
            'text = "ü"; self.socket.send(obj, copy=True)',
        ),
        (
            "edits.keyword(calls(edits.klass('Queue'), 'send')[0], 'track', '0')",
            "send(obj, copy=False, track=0)",
        ),
        ("edits.keyword(calls(edits.klass('Queue'), 'check')[0], 'n', '3')", "check(n=3)"),
        ("edits.parameter(edits.function('Queue.size'), 'n=3')", "def size(self, n=3):\n"),
        (
            "c = calls(edits.klass('Queue'), 'check')[0]\n"
            "edits.instead(around(edits.klass('Queue'), c), 'return 7')",
            "        return 7\n",
        ),
    ],
)
def test_an_edit_changes_what_it_names_and_nothing_else(change: str, expected: str) -> None:
    text = edited(change)
    assert expected in text
    assert text.count("\n") >= SOURCE.count("\n")
    compile(text, "edited", "exec")


def test_several_edits_are_made_at_once_where_the_text_was() -> None:
    edits = Edits(SOURCE)
    edits.top("import os")
    sending = edits.function("Queue.send")
    edits.keyword(calls(sending, "send")[0], "copy", "True")
    edits.after(sending.body[-1], "never()")
    text = edits.text()
    assert "import os\nimport zmq" in text
    assert "copy=True" in text
    assert "        return text\n        never()\n" in text


@pytest.mark.parametrize(
    "change",
    [
        "edits.function('Queue.receive')",
        "edits.klass('Queue.send')",
        "calls(edits.klass('Queue'), 'recv')",
        "statement(edits.klass('Queue'), lambda each: False, 'such line')",
        "None",
        "edits.top('if True')",
    ],
)
def test_what_does_not_fit_says_so(change: str) -> None:
    with pytest.raises(DoesNotFit):
        edited(change)


@pytest.mark.parametrize(
    ("after", "new"),
    [
        ("a\nb\nc", []),
        ("a\nx\ny\nb\nc", [2, 3]),
        ("a\nB\nc", []),
        ("a\nx\nB\nc", [2]),
        ("a\nc\nz", [3]),
        ("a\nx\n    b\n    c", [2]),
        ("c", []),
    ],
)
def test_lines_that_stand_for_none_are_added(after: str, new: list[int]) -> None:
    assert added("a\nb\nc", after) == frozenset(new)
