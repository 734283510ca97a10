"""A stranger's queue is judged fairly, and ten breakages of it are each caught as what they are."""

from __future__ import annotations

import concurrent.futures
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from killpoint.invariants import CATALOGUE
from killpoint.judgement.judge import judge
from killpoint.targets.protocol import Capability, Outcome

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "tests" / "examples"
GUIDE = ROOT / "docs" / "targets.md"
Broken = dict[str, dict[str, str]]
"""Target, case, what comes out."""

HELD = (
    "R2/large-messages",
    "R3/stream",
    "R6/held-small-after-lap",
    "R7/undecodable-message",
    "Q1/fuzz",
    "Q2/receive-timed-out",
    "Q3/overwritten-after-enqueue",
    "Q6/published-before-death",
    "Q7/reader-dies-idle",
    "Q8/idle-reader-wakes",
    "Q9/send-to-full-ring",
    "Q10/writer-dies-in-handshake",
    "Q11/drop-in-a-cycle",
    "Q13/two-receivers",
    "Q14/8-local-readers",
    "Q16/exited-after-inline",
    "Q17/attached-again",
    "L1/all-killed-before-ready",
)
LACKING = {
    "R1/two-readers": "ring, slots",
    "R4/full-ring": "ring",
    "R7/fill-raises": "ring",
    "R8/missing-segment": "ring",
    "Q2/late-overflow-payload": "points, slots",
    "Q4/buffer-count": "limits",
    "Q6/writer-killed-anywhere": "points",
    "Q9/cancel-send": "cancel",
}


@pytest.fixture(autouse=True)
def examples_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


def convictions(broken: Broken) -> Broken:
    """Of what each broken queue is convicted, case by case; two of them are judged at a time."""

    def convict(name: str) -> dict[str, str]:
        judgement = judge(f"broken_pipes:{name}", list(broken[name]), jobs=1, confirms=False)
        assert judgement.status() == 1
        cases = {case.id: case for verdict in judgement.verdicts for case in verdict.cases}
        return {id: f"{cases[id].outcome}: {cases[id].kind}" for id in broken[name]}

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(zip(broken, pool.map(convict, broken), strict=True))


def test_a_strangers_queue_is_judged_fairly():
    """One judgement for all cases: each of them would start the target anew."""
    judgement = judge("pipe_queue:PipeTarget", [*HELD, *LACKING, "R1", "R8", "Q4"])
    assert (judgement.name, judgement.version) == ("pipe_queue", "1")
    cases = {case.id: case for verdict in judgement.verdicts for case in verdict.cases}
    held = {id: f"{cases[id].outcome} {cases[id].cause}".rstrip() for id in HELD}
    assert held == dict.fromkeys(HELD, "held")
    assert all(cases[id].runs for id in HELD)
    lacking = {id: f"{cases[id].outcome}, {cases[id].cause}" for id in LACKING}
    assert lacking == {
        id: f"unsupported, the target lacks {words}" for id, words in LACKING.items()
    }
    assert not any(cases[id].runs for id in LACKING)
    words = {verdict.id: verdict.verdict for verdict in judgement.verdicts}
    sure = ("R2", "R3", "R6", "Q1", "Q3", "Q10", "Q11", "Q14", "Q16", "L1")
    assert {id: words[id] for id in sure} == dict.fromkeys(sure, "holds")
    closed = ("R1", "R4", "R7", "R8", "Q4", "Q9")
    assert {id: words[id] for id in closed} == dict.fromkeys(closed, "unsupported")


def test_the_strangers_queue_knows_neither_the_reference_nor_its_judge():
    """It is no proof of fairness to judge one's own code under another name."""
    code = "import sys, pipe_queue; print(*{name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=EXAMPLES, capture_output=True, text=True, check=True
    )
    known = set(found.stdout.split())
    assert "pipe_queue" in known
    assert not known & {"refengine", "killpoint", "zmq"}


class TestItsBreakages:
    def test_messages_that_go_astray(self):
        broken = {
            "DropsEveryFifth": {"Q13/two-senders": "violated: lost"},
            "SwapsTwo": {"R3/stream": "violated: reordered"},
            "RepeatsOne": {"R3/stream": "violated: duplicate"},
            "StartsOver": {"Q17/attached-again": "violated: duplicate"},
            "AsksAgain": {"Q2/receive-timed-out": "violated: duplicate"},
        }
        assert convictions(broken) == broken

    def test_bytes_that_change_and_calls_that_end_wrongly(self):
        broken = {
            "NeverReturns": {"Q10/nobody-comes": "violated: hang"},
            "FlipsAByte": {"R3/stream": "violated: wrong-data"},
            "KeepsAliasing": {"R6/held-overflow": "violated: wrong-data"},
            "BreaksFourPromises": {
                "Q3/overwritten-after-enqueue": "violated: wrong-data",
                "Q10/nobody-comes": "violated: no-error",
                "L1/clean-end": "violated: leak",
                "Q9/receive-from-empty-ring": "violated: late",
            },
        }
        assert convictions(broken) == broken


class TestTheGuide:
    """docs/targets.md says what the code does."""

    def test_its_adapter_is_the_one_that_was_judged(self):
        blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
        source = (EXAMPLES / "pipe_queue.py").read_text("utf-8")
        adapter = source[source.index("class PipeTarget") :]
        assert adapter in blocks
        assert len(adapter.splitlines()) <= 50

    @pytest.mark.parametrize("word", get_args(Capability))
    def test_its_table_names_the_invariants_that_need_a_capability(self, word: str):
        rows = re.findall(r"^\| `(.*?)` \|.*\| (.*?) \|$", GUIDE.read_text("utf-8"), re.MULTILINE)
        needing = [item.id for item in CATALOGUE if word in item.needs]
        others = [item.id for item in CATALOGUE if item.id not in needing]
        expected = ", ".join(needing) or "cases only"
        if word == "queue":
            expected = f"all but {', '.join(others)}"
        assert dict(rows)[word] == expected

    def test_it_explains_every_outcome_word(self):
        explained = re.findall(r"^\| `([a-z-]+)` \|", GUIDE.read_text("utf-8"), re.MULTILINE)
        assert [word for word in get_args(Outcome) if word not in explained] == []
