"""The specification: what code and docs cite is there, and the catalogue has the same clauses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from doc_pages import ROOT, prose

from killpoint.invariants import CATALOGUE

_SPEC = ROOT / "docs" / "spec.md"
_CLAUSE = re.compile(r"^- \*\*([A-Z]\d+)\*\*(?: · ([^.]*)\.)? ", re.MULTILINE)
_PLACE = r"(?:[A-Z]\d+|\d+)\b"
"""The id of a clause, or the number of a section."""
_CITATION = re.compile(
    rf"(?<![\w:])SPEC(?!\w|,…)(?:\s+({_PLACE}(?:(?:, | to | and |-){_PLACE})*))?"
)
"""``SPEC R9``, ``SPEC 3, Q1``, ``SPEC R1 to R5``, ``SPEC G1-G4``; ``SPEC,…`` and ``serve:SPEC`` are
targets'."""
_RANGE = re.compile(r"([A-Z])(\d+)(?: to |-)\1(\d+)")
_KINDS = (".py", ".md", ".toml", ".sh", ".yml")


def _clauses() -> list[tuple[str, str]]:
    """Each clause of the page, with its level."""
    return _CLAUSE.findall(_SPEC.read_text("utf-8"))


def _sections() -> set[str]:
    return set(re.findall(r"^## (\d+)\. ", prose(_SPEC), re.MULTILINE))


def _texts() -> Iterator[tuple[Path, str]]:
    paths = list(ROOT.glob("*.md"))
    for folder in ("impl", "harness", "docs", "tests", "ci", "scenarios"):
        paths += [path for path in (ROOT / folder).rglob("*") if path.suffix in _KINDS]
    for path in paths:
        if path != Path(__file__):
            yield path, path.read_text("utf-8")


def _citations() -> Iterator[tuple[str, list[str]]]:
    """Where each citation stands, and the clauses and sections that it names."""
    for path, text in _texts():
        for found in _CITATION.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            where = f"{path.relative_to(ROOT)}:{line}: {found[0]}"
            yield where, _named(found[1] or "")


def _named(places: str) -> list[str]:
    wide = _RANGE.sub(
        lambda r: ", ".join(f"{r[1]}{n}" for n in range(int(r[2]), int(r[3]) + 1)), places
    )
    return re.findall(_PLACE, wide)


def test_every_citation_of_the_specification_resolves() -> None:
    known = {id for id, _ in _clauses()} | _sections()
    cited = list(_citations())
    assert len(cited) > 200
    missing = [where for where, places in cited if not places or not set(places) <= known]
    assert not missing, "\n".join(missing)


def test_a_citation_is_read_whole() -> None:
    assert _named("R1 to R3, R9") == ["R1", "R2", "R3", "R9"]
    assert _named("G1-G4") == ["G1", "G2", "G3", "G4"]
    assert _named("3, Q1 and S3") == ["3", "Q1", "S3"]


def test_sections_are_numbered_from_1_to_10_and_no_clause_stands_twice() -> None:
    assert _sections() == {str(number) for number in range(1, 11)}
    ids = [id for id, _ in _clauses()]
    assert len(ids) == len(set(ids))


def test_the_page_and_the_catalogue_have_the_same_clauses_at_the_same_levels() -> None:
    """A clause that no case judges is marked so, for it is not in the catalogue."""
    page = {id: level for id, level in _clauses() if id not in ("X1", "X2")}
    judged = {id: level for id, level in page.items() if "not judged yet" not in level}
    catalogue = {
        item.id: f"{item.level}, bound SHOULD" if item.bound else item.level for item in CATALOGUE
    }
    assert judged == catalogue
    assert list(judged) == sorted(judged, key=list(catalogue).index)


def test_every_bound_of_the_catalogue_is_on_the_page_with_a_reason() -> None:
    page = re.split(r"\n- \*\*([A-Z]\d+)\*\*", _SPEC.read_text("utf-8"))
    clauses = dict(zip(page[1::2], page[2::2], strict=True))
    for item in CATALOGUE:
        assert not item.bound or "Reason" in clauses[item.id], item.id
