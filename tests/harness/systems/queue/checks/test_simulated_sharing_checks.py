from __future__ import annotations

import pytest

from killpoint.systems.queue.checks.simulated_sharing import Shared, exactly_once


@pytest.mark.parametrize(
    "run",
    [
        Shared([0, 1], [], [1, 0]),
        Shared([0], [1], [0]),
        Shared([0], [1], [0, 1]),
    ],
)
def test_each_accepted_message_once_is_well_whatever_came_of_the_refused(run: Shared) -> None:
    assert exactly_once(run) is None


@pytest.mark.parametrize(
    ("run", "kind", "words"),
    [
        (Shared([0, 1], [], [0, 0]), "duplicate", "message 0 came twice"),
        (Shared([0, 1], [], [1]), "lost", "message 0 never came"),
        (Shared([0], [], [0, 9]), "wrong-data", "nobody sent: 9"),
        (Shared([0, 1], [], [0], broken="the reader's call raised X"), "wrong-data", "raised X"),
        (
            Shared([0], [], [], how="deadlock", waiting={"thread-1": "a slot"}),
            "hang",
            "thread-1 waits for a slot",
        ),
    ],
)
def test_anything_else_is_told_by_its_kind(run: Shared, kind: str, words: str) -> None:
    found = exactly_once(run)
    assert found is not None
    assert found.kind == kind
    assert words in found.cause
