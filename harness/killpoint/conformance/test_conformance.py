"""The conformance suite: one pytest item for each case, on the target given by ``--target``."""

from __future__ import annotations

import pytest

from killpoint.case import Case
from killpoint.cases import asked_of
from killpoint.plugin import Referee
from killpoint.targets.registry import is_server


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The cases that a target of the kind is asked; those that need a GPU can be chosen by mark."""
    target: str = metafunc.config.getoption("--target") or "refengine"
    full = bool(metafunc.config.getoption("--full"))
    cases = asked_of(server=is_server(target), full=full)
    items = [
        pytest.param(case, id=case.id, marks=[pytest.mark.gpu] * ("cuda" in case.needs))
        for case in cases
    ]
    metafunc.parametrize("case", items)


def test_case(case: Case, referee: Referee) -> None:
    """The case is held; `unsupported` is a skip, `inconclusive` and `violated` are failures."""
    referee.judge(case)
