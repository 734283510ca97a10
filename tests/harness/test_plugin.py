"""The plugin in a pytest of its own: items, failures that explain themselves, the card."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from killpoint.plugin import conclude
from killpoint.report.known import Known
from killpoint.verdict import CaseOutcome

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """Two cases on a queue that loses messages and has no ring, with a kept folder."""
    kept = tmp_path_factory.mktemp("kept")
    return _pytest(
        "--pyargs",
        "killpoint.conformance",
        "--target=broken_pipes:DropsEveryFifth",
        f"--killpoint-out={kept}",
        "-k=R3/stream or R1/one-reader",
    )


def _pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(_ROOT / "tests/examples"), str(_ROOT / "harness"), str(_ROOT / "impl")]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-c", os.devnull, "-p", "no:cacheprovider", *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONFAULTHANDLER": "1"},
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_violation_is_a_failure_with_cause_and_replay(
    session: subprocess.CompletedProcess[str],
) -> None:
    assert session.returncode == 1
    assert "R3/stream: violated (lost)" in session.stdout
    assert "killpoint replay" in session.stdout
    assert "R3-stream.toml" in session.stdout


def test_an_unsupported_case_is_a_skip_and_the_card_ends_the_session(
    session: subprocess.CompletedProcess[str],
) -> None:
    assert "1 failed, 1 skipped" in session.stdout
    card = session.stdout.partition("killpoint ====")[2]
    assert "R3   1 violated" in card
    assert "R1   1 unsupported" in card


def test_collection_runs_no_target() -> None:
    collected = _pytest("--pyargs", "killpoint.conformance", "--target=no_such:thing", "--co", "-q")
    assert collected.returncode == 0
    assert "Q16/closed-after-60MB" in collected.stdout


def test_a_misspelt_scenario_is_an_error_that_names_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "story.toml"
    file.write_text('case = "R3/x"\njudges = ["R3"]\n\n[[steps]]\ndo = "send"\nmesages = []\n')
    collected = _pytest(str(file))
    assert collected.returncode == 2
    assert f"{file}:6: unknown key 'mesages'" in collected.stdout


_TOLD = """
import pytest
from killpoint.verdict import CaseOutcome

HUNG = CaseOutcome(
    "Q6/published-before-death", "Q6", "violated", "hang", "it waited", runs=2, counts={"kills": 7}
)

@pytest.mark.parametrize("outcome", [
    HUNG,
    CaseOutcome("R3/stream", "R3", "held", runs=1),
    CaseOutcome("W3/new", "W3", "violated", "late", "it came late", "runs/x/new.toml"),
], ids=lambda outcome: outcome.id)
def test_told(referee, outcome):
    referee.report(outcome)
"""
_KNOWN = """
[[known]]
case = "Q6/published-before-death"
kind = "hang"
cause = "it waited"
target = "{target}"
note = "ours"

[[known]]
case = "R3/stream"
kind = "lost"
cause = "never came"
target = "{target}"
"""


def test_known_failures_xfail_those_that_are_gone_fail_and_junit_tells_each_case(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_told.py").write_text(_TOLD)
    (tmp_path / "known.toml").write_text(_KNOWN.format(target="pipe_queue"))
    asked = ["--known", f"{tmp_path}/known.toml", f"--junitxml={tmp_path}/junit.xml", "-n1", "-rx"]
    target = "--target=broken_pipes:DropsEveryFifth"
    session = _pytest(str(tmp_path / "test_told.py"), target, "--seed=5", *asked)
    assert "2 failed, 1 xfailed" in session.stdout
    assert "known failure: Q6/published-before-death (hang) of pipe_queue: ours" in session.stdout
    assert "known failure no longer fails: R3/stream (lost)" in session.stdout
    assert "Q6   1 violated" in session.stdout.partition("killpoint ====")[2]
    junit = ET.parse(tmp_path / "junit.xml")
    told = {
        case.attrib["name"]: {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
        for case in junit.iter("testcase")
    }
    hung = told["test_told[Q6/published-before-death]"]
    assert hung.pop("signature").startswith("Q6/published-before-death:hang:")
    assert hung.pop("target").startswith("pipe_queue")
    about = {"strength": "2 runs, 7 kills", "seed": "5", "class": "hang", "kind": "hang"}
    assert hung == about | {"case": "Q6/published-before-death"}
    assert told["test_told[W3/new]"]["replay"] == "runs/x/new.toml"


def test_a_wrong_file_of_known_failures_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "known.toml").write_text(_KNOWN.replace('"lost"', '"lots"'))
    session = _pytest("--known", str(tmp_path / "known.toml"), "--co", str(tmp_path))
    assert session.returncode == 4
    assert "known.toml:11: [[known]] entry 2: unknown kind 'lots'" in session.stderr


def test_a_scenario_that_several_judge_fails_for_what_is_new_among_them() -> None:
    known = [Known("Q6/x", "hang", "t", cause="waited")]
    hung = CaseOutcome("Q6/x", "Q6", "violated", "hang", "it waited")
    late = CaseOutcome("Q9/x", "Q9", "violated", "late", "too late")
    lacking = CaseOutcome("L1/x", "L1", "unsupported", cause="lacks")
    for outcomes in ([hung, lacking, late], [lacking, late, hung]):
        with pytest.raises(pytest.fail.Exception, match="too late"):
            conclude(outcomes, known)
    with pytest.raises(pytest.xfail.Exception, match="known failure: Q6/x"):
        conclude([lacking, hung], known)
    with pytest.raises(pytest.skip.Exception, match="lacks"):
        conclude([lacking], known)
    conclude([CaseOutcome("Q9/x", "Q9", "held")], known)


def test_faulthandler_is_off_in_a_session_with_the_plugin(tmp_path: Path) -> None:
    test = tmp_path / "test_off.py"
    test.write_text(
        "import faulthandler\n\ndef test_off():\n    assert not faulthandler.is_enabled()\n"
    )
    assert _pytest(str(test)).returncode == 0
