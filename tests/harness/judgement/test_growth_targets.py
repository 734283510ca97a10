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
from killpoint.runner.stage import Stage
from killpoint.search.case_run import CaseRun
from killpoint.targets.registry import resolve

EXAMPLES = Path(__file__).parents[2] / "examples"
_TIMES = 10
_AT_ONCE = 5
_SPIN = "import time\nend = time.monotonic() + 1800\nwhile time.monotonic() < end: pass"
_STREAMS = ("Q12/paced-stream", "Q12/paced-overflow")
_ROWS = [
    *(
        (f"leaky_pipes:Leak{each}", stream, "violated")
        for stream in _STREAMS
        for each in (4, 8, 64)
    ),
    *(
        (target, stream, "held")
        for stream in _STREAMS
        for target in ("leaky_pipes:Leak1", "leaky_pipes:MappedRing", "os_pipes:OsPipeTarget")
    ),
    ("refengine", "Q12/paced-overflow", "held"),
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


def _tried(target: str, case: str, seed: int = 0) -> tuple[str, int]:
    """The outcome, and how many plays it took."""
    with Stage(target) as stage:
        case_run = CaseRun(case, stage, seed=seed, full=False, folder=None)
        return case_run.judge(select([case])[0].run).outcome, case_run.plays


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
        trials = [pool.submit(_tried, spec, case, seed) for seed in range(_TIMES)]
        tried = [case_run.result() for case_run in trials]
    assert Counter(word for word, _ in tried) == {expected: _TIMES}
    if case == "Q12/paced-overflow":  # the longer play is the dearest of a whole check
        assert sum(plays == 1 for _, plays in tried) >= _TIMES - 1


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
    word, _ = _tried(f"leaky_pipes:{target}", "Q12/paced-stream")
    assert word == expected
