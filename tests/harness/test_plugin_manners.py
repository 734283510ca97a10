"""The plugin in somebody else's project: as strict as can be, with tests and tools of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

_SUMS_UP = """
import os
from pathlib import Path
import pytest

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop():
    done = yield
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in children]
    print("zygotes:", sum("killpoint.stage.zygote" in command for command in commands))
    return done
"""
"""As a measurer of coverage does, once all have run."""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """That project."""
    pytester.makeini(
        "[pytest]\naddopts = --strict-markers --strict-config\nfilterwarnings = error\n"
    )
    pytester.makepyfile(test_own="def test_own():\n    pass\n")
    pytester.makefile(".toml", build='[[steps]]\nrun = "make"\n')
    return pytester


def _said(project: pytest.Pytester, *arguments: str) -> tuple[int, str]:
    ran = project.runpytest_inprocess("-p", "no:cacheprovider", *arguments)
    return int(ran.ret), "\n".join(ran.outlines)


def test_it_collects_the_suite_without_a_word_on_marks(project: pytest.Pytester) -> None:
    status, said = _said(project, "--pyargs", "killpoint.conformance", "--co", "-q")
    assert status == 0, said
    assert "test_case[R6/held-array-after-lap]" in said


def test_its_toml_files_are_left_to_it(project: pytest.Pytester) -> None:
    status, said = _said(project, "--co", "-q")
    assert status == 0, said
    assert said.splitlines()[0] == "test_own.py::test_own"


def test_a_file_of_steps_that_was_named_is_told_what_it_lacks(project: pytest.Pytester) -> None:
    status, said = _said(project, "build.toml", "--co", "-q")
    assert status == 2
    assert "build.toml:1: missing required field" in said


def test_help_has_the_options_in_a_group_of_their_own(project: pytest.Pytester) -> None:
    _, said = _said(project, "--help")
    group = said.partition("conformance and fault injection:")[2].partition("\n\n")[0]
    for option in ("--target", "--device", "--seed", "--budget", "--full", "--killpoint-out"):
        assert f"  {option}" in group


def test_the_marks_are_explained(project: pytest.Pytester) -> None:
    assert "@pytest.mark.gpu: needs an accelerator" in _said(project, "--markers")[1]


def test_no_zygote_lives_when_others_sum_up(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    project.makeconftest(_SUMS_UP)
    case = ["-k", "R3/stream", "--target", "pipe_queue:PipeTarget"]
    status, said = _said(project, "--pyargs", "killpoint.conformance", ".", *case)
    assert status == 0, said
    assert "zygotes: 0" in said
