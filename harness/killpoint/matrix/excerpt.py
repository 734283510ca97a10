"""What of the matrix another page opens with: the invariants that are violated somewhere."""

from __future__ import annotations

from pathlib import Path

from killpoint.errors import BadUsage
from killpoint.matrix.page import Judged, cell_links
from killpoint.report.matrix_table import markdown

BEGIN, END = "<!-- matrix:begin -->", "<!-- matrix:end -->"


def around(file: Path) -> tuple[str, str]:
    """What a page has before and after the place of the table.

    Raises:
        BadUsage: there is no such page, or no such place in it.
    """
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise BadUsage(f"--excerpt {file}: {error}") from error
    before, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(f"{END}\n")
    if not (begin and end):
        raise BadUsage(f"--excerpt {file}: expected a line {BEGIN}, and after it a line {END}")
    return before + begin, end + after


def put(file: Path, matrix: Path, judged: list[Judged]) -> None:
    """Put the table between the page's two marks; its cells lead to those of the matrix."""
    before, after = around(file)
    link = cell_links(matrix, judged, seen_from=file)
    table = markdown([each.run for each in judged], link, violated_only=True)
    file.write_text(f"{before}\n{table.rstrip()}\n\n{after}", "utf-8")
