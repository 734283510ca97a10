"""What the documentation says can be typed: each command runs, or says why not, and parses."""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_pages import PAGES, ROOT, Command, blocks, commands, in_a_copy, prose
from doc_runs import LIMIT, compare, lay_out, run

from killpoint.cases import select
from killpoint.cli import command_line, main
from killpoint.errors import BadUsage
from killpoint.scenario import parse

_TELLING = ("explain", "list")
"""Commands that only tell something are asked in this process: an interpreter costs more."""
_ON_EVERY_COMMIT = 120.0
"""Seconds for a page: one that says nothing of a command that takes long is told so early."""
_TOUR = "tour.md"
"""A page of a minute, which ``test_fresh_clone`` follows under ``--full``."""
_SHELL = re.compile(r"[|<>;&$`]")


def _named(pages: list[Path]) -> list[object]:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages]


every_page = pytest.mark.parametrize("page", _named(PAGES))


def _to_run(page: Path, full: bool) -> list[Command]:
    if page.name == _TOUR and not full:
        return []
    return [each for each in commands(page) if not each.not_run and (full or not each.full)]


def _tells(command: Command) -> list[str]:
    """The arguments of a killpoint command that only tells something; else nothing."""
    words = [] if _SHELL.search(command.text) else shlex.split(command.words())
    return words[1:] if len(words) > 1 and words[0] == "killpoint" and words[1] in _TELLING else []


class TestItsCommands:
    @pytest.mark.parametrize("page", _named([p for p in PAGES if _to_run(p, full=False)]))
    def test_do_what_the_page_shows(
        self, page: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self._play(page, tmp_path, capfd, full=False)

    @pytest.mark.full
    @pytest.mark.parametrize("page", _named([p for p in PAGES if any(c.full for c in commands(p))]))
    def test_that_take_long_do_too(
        self, page: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self._play(page, tmp_path, capfd, full=True)

    @staticmethod
    def _play(page: Path, folder: Path, capfd: pytest.CaptureFixture[str], full: bool) -> None:
        lay_out(page, folder)
        chosen = _to_run(page, full)
        for command in chosen:
            if arguments := _tells(command):
                status = main(arguments)
                compare(page, command, status, "".join(capfd.readouterr()))
        typed = [command for command in chosen if not _tells(command)]
        for ran in run(typed, folder, limit=LIMIT if full else _ON_EVERY_COMMIT):
            compare(page, ran.command, ran.status, ran.output)

    @pytest.mark.parametrize("page", _named([p for p in PAGES if in_a_copy(p)]))
    def test_of_a_worked_example_find_the_tree_that_they_change(
        self, page: Path, tmp_path: Path
    ) -> None:
        lay_out(page, tmp_path)
        for path in tmp_path.glob("harness/**/*.py"):
            ast.parse(path.read_text("utf-8"), str(path))

    @every_page
    def test_say_why_they_are_not_run(self, page: Path) -> None:
        for block in blocks(page):
            if block.language == "console":
                assert block.commands(), f"{page}:{block.line}: no line begins with '$ '"
            for word in ("not run", "full"):
                assert block.remarks.get(word) != "yes", f"{page}:{block.line}: {word}, and why?"

    @every_page
    def test_have_no_stale_option(self, page: Path) -> None:
        for where, words in _spoken(page):
            said, only = _parsed(words)
            assert not said, f"{where}: {said}"
            if not in_a_copy(page):
                select([each for each in only if each != "ID"])


def _parsed(words: list[str]) -> tuple[str, list[str]]:
    """What the parser has against them, and the cases that they name."""
    try:
        options = command_line().parse_args(words)
    except BadUsage as error:
        # A page may speak of a command without all that it takes.
        return "" if "are required" in str(error) else str(error), []
    return "", getattr(options, "only", None) or []


def _spoken(page: Path) -> Iterator[tuple[str, list[str]]]:
    """The arguments of each killpoint command of a page, in its blocks and between them."""
    texts = [(command.line, command.words()) for command in commands(page)]
    texts += [(0, text) for text in re.findall(r"`(killpoint [^`]+)`", prose(page))]
    for line, text in texts:
        for call in re.findall(r"(?:^|[;&|({] *|\w=\S* )killpoint ([^|;&})]*)", text):
            words = ["1" if word.startswith(("PID", "$")) else word for word in shlex.split(call)]
            if not words or words[0][:1].isupper() or words[0] in ("--help", "--version"):
                continue
            yield f"{page.relative_to(ROOT)}:{line}: {text}", words


class TestItsBlocks:
    @every_page
    def test_of_toml_are_scenarios_or_load(self, page: Path) -> None:
        for block in blocks(page):
            if block.language == "toml":
                held = tomllib.loads(block.text)
                if "steps" in held and not in_a_copy(page):
                    parse(block.text, f"{page.name}:{block.line}")

    @every_page
    def test_of_python_compile(self, page: Path) -> None:
        for block in blocks(page):
            if block.language == "python":
                ast.parse(textwrap.dedent(block.text), f"{page.name}:{block.line}")


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


class TestItsLinks:
    @every_page
    def test_lead_somewhere(self, page: Path) -> None:
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            if link.startswith(("http:", "https:")):
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name}: {link}"
            assert not anchor or anchor in _anchors(target), f"{page.name}: {link}"

    def test_every_page_is_in_the_index(self) -> None:
        index = ROOT / "docs" / "README.md"
        listed = set(re.findall(r"\]\(([\w-]+\.md)\)", index.read_text("utf-8")))
        there = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
        assert there == listed


def test_the_own_queue_with_its_adapter_is_forty_lines() -> None:
    files = {b.remarks.get("file"): b.text for b in blocks(ROOT / "docs" / "own-implementation.md")}
    lines = [line for line in files["my_queue.py"].splitlines() if line.strip()]
    changes = re.findall(r"^([+-]) .*\S", files["better.diff"], re.MULTILINE)
    assert len(lines) + changes.count("+") - changes.count("-") <= 40
