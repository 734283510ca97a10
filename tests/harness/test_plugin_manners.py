"""The plugin in somebody else's project: as strict as can be, with tests and tools of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ("pytester",)


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
