"""Q12 on queues with known leaks, ten times each, alone and on a machine with too few cores."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from killpoint.cases import select
from killpoint.errors import CannotWork
from killpoint.explore.trial import Trial
from killpoint.stage.stage import Stage
from killpoint.targets.registry import resolve

EXAMPLES = Path(__file__).parents[1] / "examples"
_TIMES = 10
_AT_ONCE = 5
_SPIN = "import time\nend = time.monotonic() + 1800\nwhile time.monotonic() < end: pass"
_ROWS = [
    *((f"leaky_pipes:Leak{each}", "Q12/paced-stream", "violated") for each in (4, 8, 64)),
    *(
        (target, "Q12/paced-stream", "held")
        for target in ("leaky_pipes:Leak1", "leaky_pipes:MappedRing", "os_pipes:OsPipeTarget")
    ),
    pytest.param("vllm==0.32.0", "Q12/busy-readers", "violated", marks=pytest.mark.network),
]


@pytest.fixture(params=[0, 3], ids=["alone", "busy"])
def busy(request: pytest.FixtureRequest) -> Iterator[int]:
    """So many processes that each would have a core to itself."""
    loops = [subprocess.Popen([sys.executable, "-c", _SPIN]) for _ in range(request.param)]
    yield len(loops)
    for loop in loops:
        loop.kill()
        loop.wait()


def _word(target: str, case: str, seed: int = 0) -> str:
    with Stage(target) as stage:
        trial = Trial(case, stage, seed=seed, full=False, folder=None)
        return trial.judge(select([case])[0].run).outcome


@pytest.mark.full
@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize(("target", "case", "expected"), _ROWS)
def test_ten_of_ten_plays_say_the_same(
    monkeypatch: pytest.MonkeyPatch, target: str, case: str, expected: str
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    try:
        spec = resolve(target)
    except CannotWork as error:
        pytest.skip(f"no release archive can be had: {error}")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        words = list(pool.map(lambda seed: _word(spec, case, seed), range(_TIMES)))
    assert Counter(words) == {expected: _TIMES}


@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("LeakInReader", "violated"),
        ("LeakOfObjects", "violated"),
        ("LittleMappedRing", "held"),
        ("LittlePrivateRing", "held"),
        ("PrivateRing", "inconclusive"),
    ],
)
def test_what_is_touched_for_the_first_time_is_told_from_what_stays(
    monkeypatch: pytest.MonkeyPatch, target: str, expected: str
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    assert _word(f"leaky_pipes:{target}", "Q12/paced-stream") == expected
