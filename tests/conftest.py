"""Which tests run: some are left to ``--full``; ``--fast`` leaves those that start a process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fast_selection import Noted, Watch, left_out
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from left_to_check import LEFT_TO_CHECK
from zygote_template import Template

from killpoint.plugin import ScenarioItem

_WATCH = pytest.StashKey[Watch]()
PLAYED_AS_FILES = {
    "G4/host-leaves-after-broadcast",
    "L1/all-killed-then-next-start",
    "Q2/undecodable-overflow",
    "R4/full-ring",
    "S2/umask-000",
}
"""Of each folder of scenarios one. All of them are plays of cases (``test_scenario_files``), and
cases are judged in the same run."""


_LEFT = {f"test_case[{id}]" for id in LEFT_TO_CHECK}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Two options that choose by whether a test starts a process."""
    group = parser.getgroup("processes")
    group.addoption("--fast", action="store_true", help="only tests that start no process")
    group.addoption("--note-starts", action="store_true", help="add to tests/not_fast.txt")


def pytest_configure(config: pytest.Config) -> None:
    """Let processes that tests start be as at a terminal, wherever the tests are run.

    A ``check`` that a test makes is no verdict of the job that runs the tests; and what was begun
    in the background, or by nohup, ignores signals, and so would its children.
    """
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        os.environ.pop(name, None)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    fast, notes = config.getoption("--fast"), config.getoption("--note-starts")
    _draw_no_constants()
    _judge_no_time()
    begins_workers = bool(config.getoption("numprocesses", None)) and not _is_worker(config)
    if not (fast or notes or begins_workers):
        Template().install()
    if fast or notes:
        config.stash[_WATCH] = Watch(refuses=bool(fast))
    if notes and not _is_worker(config):
        config.pluginmanager.register(Noted())


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _judge_no_time() -> None:
    """Let no example fail for the time that it takes: a busy machine may stop any process."""
    settings.register_profile(
        "killpoint", deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("killpoint")


def _draw_no_constants() -> None:
    """Keep Hypothesis from reading all modules for constants: a tenth of the collection's time."""
    if hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: providers._local_constants


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that are not fast without importing them."""
    if not config.getoption("--fast"):
        return None
    return True if str(collection_path.relative_to(config.rootpath)) in left_out() else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """See whether a test, or a fixture of its, starts a process."""
    watch = item.config.stash.get(_WATCH, None)
    if watch is None:
        return (yield)
    with watch.test(item):
        return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    left_out = [
        item
        for item in items
        if _long(item) or (whole and (_played_as_case(item) or item.name in _LEFT))
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _long(item: pytest.Item) -> bool:
    return item.get_closest_marker("full") is not None


def _played_as_case(item: pytest.Item) -> bool:
    return isinstance(item, ScenarioItem) and item.scenario.case not in PLAYED_AS_FILES
