"""One pytest item for each case of the catalogue, on the target given by ``--target``."""

from __future__ import annotations

import pytest

from killpoint.cases import CASES
from killpoint.cases.case import Case
from killpoint.plugin import Referee


def _item(case: Case) -> object:
    """A case as an item; those that need a GPU can be chosen by their mark."""
    return pytest.param(case, id=case.id, marks=[pytest.mark.gpu] * ("cuda" in case.needs))


@pytest.mark.parametrize("case", [_item(case) for case in CASES])
def test_case(case: Case, referee: Referee) -> None:
    """The case is held; `unsupported` is a skip, `inconclusive` and `violated` are failures."""
    referee.judge(case)
