from pathlib import Path

import pytest
from stored_rows import stored

from killpoint.errors import BadUsage
from killpoint.matrix.excerpt import BEGIN, END, put
from killpoint.matrix.page import Judged
from killpoint.report.stored import StoredVerdict


@pytest.fixture
def judged(tmp_path: Path) -> list[Judged]:
    """R7 violated in one release and held in another; R8 held in both."""
    found: list[Judged] = []
    for target, outcome in (("vllm==0.26.0", "violated"), ("vllm==0.27.0", "holds")):
        place, row = stored(tmp_path / "runs", target)
        run = place.run(row)
        run.invariants["R7"].verdict = outcome
        run.invariants["R8"] = StoredVerdict("MUST", "holds", "", [])
        found.append(Judged(row, run, {}))
    return found


def test_the_page_gets_what_is_violated_somewhere_and_keeps_the_rest(
    tmp_path: Path, judged: list[Judged]
):
    page = tmp_path / "README.md"
    page.write_text(f"# Ours\n{BEGIN}\nbefore\n{END}\nthe rest\n")
    put(page, tmp_path / "docs" / "matrix.md", judged)
    put(page, tmp_path / "docs" / "matrix.md", judged)  # and the place is there again
    head, _, rest = page.read_text().partition(f"{BEGIN}\n\n")
    table, _, tail = rest.partition(f"\n\n{END}\n")
    assert (head, tail) == ("# Ours\n", "the rest\n")
    assert "before" not in table
    assert "[✗](docs/matrix/vllm-0.26.0.md#r7)" in table
    assert "[✓](docs/matrix/vllm-0.27.0.md#r7)" in table
    assert "R8" not in table


@pytest.mark.parametrize("text", ["", f"{BEGIN}\n", f"{END}\n{BEGIN}\n"])
def test_a_page_without_a_place_is_told_and_stays(tmp_path: Path, text: str):
    page = tmp_path / "README.md"
    page.write_text(text)
    with pytest.raises(BadUsage, match="expected a line <!-- matrix:begin -->"):
        put(page, tmp_path / "matrix.md", [])
    assert page.read_text() == text


def test_a_page_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(BadUsage, match="No such file"):
        put(tmp_path / "README.md", tmp_path / "matrix.md", [])
