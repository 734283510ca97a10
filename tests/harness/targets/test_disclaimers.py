"""What targets say that they do not promise: cited by case, and by release."""

from __future__ import annotations

import pytest

from killpoint.cases import CASES
from killpoint.targets.disclaimer import Disclaimer, disclaimed
from killpoint.targets.vllm.contract import disclaimers

_KNOWN = {case.id for case in CASES} | {case.invariant for case in CASES}


def test_a_disclaimer_covers_an_invariant_or_a_case() -> None:
    found = [Disclaimer(("S3", "Q2/late"), "docs/x.md", "nothing is protected")]
    assert disclaimed(found, "S3/anything") == "docs/x.md: nothing is protected"
    assert disclaimed(found, "Q2/late")
    assert not disclaimed(found, "Q2/other")


@pytest.mark.parametrize("version", ["0.8.0", "0.33.0", "a tree"])
def test_each_release_has_those_of_its_documents(version: str) -> None:
    found = disclaimers(version)
    closing = any("Q16" in each.covers for each in found)
    assert closing == (version != "0.8.0")  # its comment came with the fix of an older hang
    assert all({*each.covers} <= _KNOWN | {"S4"} for each in found)
