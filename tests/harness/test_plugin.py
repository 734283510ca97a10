"""The plugin in a pytest of its own: items, failures that explain themselves, the card."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_faulthandler_is_off_in_a_session_with_the_plugin(tmp_path: Path) -> None:
    test = tmp_path / "test_off.py"
    test.write_text(
        "import faulthandler\n\ndef test_off():\n    assert not faulthandler.is_enabled()\n"
    )
    assert _pytest(str(test)).returncode == 0
