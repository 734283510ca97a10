"""One pytest item for each case of the catalogue, on the target given by ``--target``."""

from __future__ import annotations

import pytest

from killpoint.cases import CASES
from killpoint.cases.case import Case
from killpoint.plugin import Referee


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_case(case: Case, referee: Referee) -> None:
    """The case is held; `unsupported` is a skip, `inconclusive` and `violated` are failures."""
    referee.judge(case)
