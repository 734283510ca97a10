"""The registry of findings: every entry is whole, and is tested by something."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from killpoint.cases import EVERY_CASE
from killpoint.errors import BadUsage
from killpoint.findings.attribution import without
from killpoint.findings.registry import IMPACTS, SERVER, affects, finding, findings
from killpoint.invariants import BY_ID
from killpoint.targets.vllm.switch_offs import SWITCH_OFFS, known
from killpoint.targets.vllm.switch_offs.servers import SERVER_SWITCH_OFFS, switchable
from killpoint.verdict import Kind

ENTRIES = list(findings().values())


def test_a_switch_off_or_the_reason_why_there_is_none() -> None:
    able = switchable()
    assert [e.id for e in ENTRIES if (e.id in able) == bool(e.no_switch_off)] == []
    assert [id for id in able if id not in findings()] == []
    assert [id for id in SERVER_SWITCH_OFFS if SERVER not in findings()[id].projects] == []


def test_who_has_no_switch_off_is_told_by_its_words_or_by_the_release_that_fixed_it() -> None:
    mute = [e.id for e in ENTRIES if e.no_switch_off and not (e.told_as or e.fixed)]
    assert mute == []
    assert [e.id for e in ENTRIES if e.told_as and not e.no_switch_off] == []


def test_each_exhibit_is_a_case() -> None:
    known = {case.id for case in EVERY_CASE}
    assert [e.id for e in ENTRIES if e.exhibit not in known] == []


def test_what_an_entry_breaks_are_invariants_each_with_a_kind_of_violation() -> None:
    said = [tuple(words.split()) for e in ENTRIES for words in e.breaks]
    assert [each for each in said if each[0] not in BY_ID] == []
    assert [each for each in said if each[1:] not in {(kind,) for kind in get_args(Kind)}] == []


def test_each_entry_says_what_an_engineer_needs() -> None:
    for each in ENTRIES:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", each.id)
        assert each.impact in IMPACTS
        for text in (each.symptom, each.mechanism, each.reason, each.trigger, each.consequence):
            assert text[0].islower() or text[0].isdigit(), text
            assert not text.endswith("."), text
        assert each.place.file.endswith(".py")
        assert re.fullmatch(r"(<=)?\d+\.\d+\.\d+", each.since)
        assert all(re.fullmatch(r"[\w-]+/[\w-]+#\d+", thread) for thread in each.threads)


def test_what_is_beyond_the_contract_cites_it() -> None:
    assert [e.id for e in ENTRIES if (e.impact == "beyond-contract") != bool(e.cited)] == []


def test_ids_name_one_root_cause_each() -> None:
    mechanisms = [e.mechanism for e in ENTRIES]
    assert len(mechanisms) == len({*mechanisms})


@pytest.mark.parametrize(
    ("id", "release", "there"),
    [
        ("altered-after-enqueue", "0.11.0", False),
        ("altered-after-enqueue", "0.12.0", True),
        ("unchecked-memory", "0.26.0", True),
        ("unchecked-memory", "0.27.0", False),
        ("late-replies", "0.8.0", True),
        ("unchecked-memory", "/a/tree", False),
    ],
)
def test_a_release_is_in_the_range_or_not(id: str, release: str, there: bool) -> None:
    assert affects(finding(id), release) == there


def test_an_unknown_id_is_bad_usage() -> None:
    with pytest.raises(BadUsage, match="late-replies"):
        finding("early-replies")
    with pytest.raises(BadUsage, match="late-replies"):
        known(["early-replies"])


def test_nothing_can_be_switched_off_in_another_target() -> None:
    with pytest.raises(BadUsage, match="alone"):
        without("refengine", ["late-replies"])


def test_switched_off_findings_are_part_of_the_spec_once_each_and_in_order() -> None:
    once = without("vllm==0.33.0", ["late-replies", "deaf-reader"])
    assert once == "vllm==0.33.0~deaf-reader,late-replies"
    assert without(once, ["late-replies"]) == once
    assert without("vllm==0.33.0", ["known"]).count(",") == len(SWITCH_OFFS) - 1


def test_a_tree_may_have_a_tilde_in_its_name(tmp_path: Path) -> None:
    tree = tmp_path / "a~deaf-reader"
    tree.mkdir()
    assert without(f"vllm@{tree}", ["late-replies"]) == f"vllm@{tree}~late-replies"


def test_all_findings_together_make_no_path_of_a_tree_too_long(tmp_path: Path) -> None:
    once = without(f"vllm@{tmp_path}", ["known"])
    assert len(once) > 255 + len(str(tmp_path))
    assert without(once, ["known"]) == once
