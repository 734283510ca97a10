"""The plugin in somebody else's project: as strict as can be, with tests and tools of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

pytest_plugins = ("pytester",)


class Others:
    """Other plugins' ways: another order, a deadline by a signal, a sum of what was measured."""

    zygotes = -1
    """How many there were when they summed up."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.reverse()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Function) -> Generator[None, object, object]:
        if "R3/stream" in item.nodeid:
            item.funcargs["referee"].stage()  # what takes too long is the play
            before = signal.signal(signal.SIGALRM, _too_late)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            try:
                return (yield)
            finally:
                signal.signal(signal.SIGALRM, before)
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        done = yield
        me = os.getpid()
        children = Path(f"/proc/{me}/task/{me}/children").read_text().split()
        commands = [Path(f"/proc/{pid}/cmdline").read_text() for pid in children]
        self.zygotes = sum("killpoint.runner.processes.zygote" in command for command in commands)
        return done


def _too_late(_number: int, _frame: object) -> None:
    pytest.fail("it takes too long")


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """That project."""
    pytester.makeini(
        "[pytest]\naddopts = --strict-markers --strict-config\nfilterwarnings = error\n"
    )
    pytester.makepyfile(test_own="def test_own():\n    pass\n")
    pytester.makefile(".toml", build='[[steps]]\nrun = "make"\n')
    return pytester


def _said(project: pytest.Pytester, *arguments: str, others: object = None) -> tuple[int, str]:
    plugins = [others] if others else []
    ran = project.runpytest_inprocess("-p", "no:cacheprovider", *arguments, plugins=plugins)
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


def test_others_may_reorder_and_interrupt_and_measure(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    some = "R3/stream or R1/one-reader or (Q3/overwritten and not (large or flow or remote))"
    asked = ["--pyargs", "killpoint.conformance", "--target", "pipe_queue:PipeTarget", "-k", some]
    others = Others()
    status, said = _said(project, *asked, others=others)
    assert status == 1
    assert "1 failed, 1 passed, 1 skipped" in said
    assert "it takes too long" in said
    card = said.partition("killpoint ====")[2]
    assert card.index("R1 ") < card.index("Q3 "), "in the catalogue's order"
    assert others.zygotes == 0, "they end before others sum up"
