"""A page of documentation as data: its blocks, and the commands in them with what they show.

What a reader need not see stands in HTML comments right above a block:

``<!-- not run: REASON -->``   its commands are only parsed
``<!-- full: REASON -->``      they run with ``--full`` alone
``<!-- status N -->``          what its last command ends with, if not with 0
``<!-- file: PATH -->``        the block is this file, which the page's later commands find
``<!-- edit -->``              a diff, made in the page's own copy of the tree

``<!-- in a copy -->`` anywhere on the page gives its commands a tree that they may change.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"^```(\w*)$")
_COMMENT = re.compile(r"^<!-- (.*?) -->$")


@dataclass(frozen=True)
class Command:
    """What follows a ``$``, and the lines below it."""

    line: int
    text: str
    shown: tuple[str, ...]
    status: int = 0
    full: str = ""
    not_run: str = ""

    def words(self) -> str:
        """Without the comment at its end."""
        return re.sub(r"\s+# .*$", "", self.text)


@dataclass(frozen=True)
class Block:
    """What stands between two fences."""

    line: int
    language: str
    text: str
    remarks: dict[str, str] = field(default_factory=dict)

    def commands(self) -> list[Command]:
        """Those of a console block."""
        if self.language != "console":
            return []
        found: list[tuple[int, str, list[str]]] = []
        for number, line in enumerate(self.text.splitlines(), self.line + 1):
            if line.startswith("$ "):
                found.append((number, line[2:], []))
            elif found and found[-1][1].endswith("\\"):
                at, so_far, shown = found[-1]
                found[-1] = (at, so_far[:-1] + line.strip(), shown)
            elif found:
                found[-1][2].append(line)
        status = int(self.remarks.get("status", "0"))
        return [
            Command(
                at,
                text,
                tuple(shown),
                status if number == len(found) else 0,
                self.remarks.get("full", ""),
                self.remarks.get("not run", ""),
            )
            for number, (at, text, shown) in enumerate(found, 1)
        ]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    found: list[Block] = []
    remarks: dict[str, str] = {}
    inside: tuple[int, str, list[str]] | None = None
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if inside is not None:
            if line == "```":
                at, language, lines = inside
                found.append(Block(at, language, "\n".join(lines) + "\n", remarks))
                inside, remarks = None, {}
            else:
                inside[2].append(line)
        elif fence:
            inside = (number, fence.group(1), [])
        elif remark := _COMMENT.match(line):
            key, _, value = remark.group(1).partition(": ")
            word, _, rest = key.partition(" ")
            remarks |= {word: rest} if word == "status" else {key: value or "yes"}
        elif line.strip():
            remarks = {}
    assert inside is None, f"{page}:{inside and inside[0]}: this block does not end"
    return found


def in_a_copy(page: Path) -> bool:
    """Whether its commands have a tree that they may change."""
    return "<!-- in a copy -->" in page.read_text("utf-8").splitlines()


def commands(page: Path) -> list[Command]:
    """All commands of a page, in order."""
    return [command for block in blocks(page) for command in block.commands()]


def prose(page: Path) -> str:
    """The page without its blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
