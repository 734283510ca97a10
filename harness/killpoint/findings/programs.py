"""Programs that show a finding without killpoint: a script, or a test, put together from parts.

``scripts/`` has the parts that several share (``_loader``, ``_bounded``, ``_pool``), and a folder
for each system with a file for each finding that has one, named as its id. A program is exported as
one file: the parts that it imports are put into it, without what it does not use.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from functools import cache
from importlib import resources

from killpoint.errors import BadUsage
from killpoint.findings.registry import SERVER, Finding, findings
from killpoint.syntax import parsed

_LOADER = "_loader"
_WIDTH = 92


@cache
def with_script() -> tuple[str, ...]:
    """The findings that have a script, in the order of the registry."""
    return tuple(id for id in findings() if _stem(id) in _texts())


def script(entry: Finding, release: str, *, trees: bool = True) -> str:
    """A program against an installed target, or the files of a release in ``TARGET_TREE``.

    Args:
        release: one that has the finding, for its docstring.
        trees: if not, against an installed target alone, and without what loads such files.

    Raises:
        BadUsage: the finding has none.
    """
    trees = trees and SERVER not in entry.projects
    parts = [each for each in _parts(entry) if trees or each.name != _LOADER]
    usage = f"    python {entry.id}.py    against an installed vllm\n"
    if trees:
        usage += (
            f"    TARGET_TREE=FOLDER python {entry.id}.py    against the files in FOLDER/vllm\n"
        )
    usage += "\nExit status: 1 it shows the bug, 0 it does not, 2 it could not try."
    return _put_together(entry, release, parts, usage)


def test(entry: Finding, release: str) -> str:
    """A file with one pytest function that imports the target; it fails while the bug is there.

    Raises:
        BadUsage: the finding has no script.
    """
    parts = [each for each in _parts(entry) if each.name != _LOADER]
    for each in parts:
        each.drop("main")
    function = (
        f"def test_{_stem(entry.id)}():\n"
        "    status, told = bounded(shows)\n"
        "    if status == NOT_TRIED:\n"
        "        pytest.skip(told)\n"
        "    assert status == HELD, told\n"
    )
    return _put_together(
        entry, release, [*parts, _Part("test", f"import pytest\n\n\n{function}")], ""
    )


def own_text(id: str) -> str:
    """Return what is a finding's own in its script: it imports the parts that others share."""
    return _texts()[_stem(id)]


@cache
def _texts() -> dict[str, str]:
    """Return every file of the scripts, by the name that others import it by."""
    top = resources.files("killpoint.findings") / "scripts"
    folders = [top, *(each for each in top.iterdir() if each.is_dir())]
    files = [file for folder in folders for file in folder.iterdir() if file.name.endswith(".py")]
    return {file.name.removesuffix(".py"): file.read_text("utf-8") for file in files}


def _stem(id: str) -> str:
    return id.replace("-", "_")


class _Part:
    """One file: its docstring, its imports, and the statements after them as text."""

    def __init__(self, name: str, text: str) -> None:
        tree = parsed(text)
        lines = text.splitlines()
        self.name = name
        self.told = ast.get_docstring(tree) or ""
        self.imports = [each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
        ends = [0, *(each.end_lineno or 0 for each in tree.body)]
        self.statements = [
            (each, "\n".join(lines[start : each.end_lineno]).strip("\n"))
            for start, each in zip(ends, tree.body, strict=False)
            if not (each in self.imports or _is_docstring(each))
        ]

    def drop(self, function: str) -> None:
        """Leave a function out, and the part's call of it."""
        self.statements = [
            (each, text)
            for each, text in self.statements
            if getattr(each, "name", "") != function and "__main__" not in ast.unparse(each)
        ]

    def names(self) -> set[str]:
        """Return the names that its statements refer to."""
        return {name for each, _ in self.statements for name in _names(each)}

    def keep(self, used: set[str]) -> None:
        """Leave out the functions, classes and constants that are not used."""
        while True:
            inner = {n for e, _ in self.statements for n in _names(e) if n not in _defined(e)}
            kept = [
                (each, text)
                for each, text in self.statements
                if not _defined(each) or _defined(each) & (used | inner)
            ]
            if len(kept) == len(self.statements):
                return
            self.statements = kept

    def text(self) -> str:
        """The statements, as far apart as they were."""
        spaced = ""
        for each, text in self.statements:
            wide = isinstance(each, ast.FunctionDef | ast.ClassDef | ast.If)
            spaced += ("\n\n\n" if wide or spaced.endswith(" ") else "\n") + text
        return spaced.strip("\n")


def _parts(entry: Finding) -> list[_Part]:
    """Return the parts that a finding's script is made of, each before the one that imports it."""
    if entry.id not in with_script():
        raise BadUsage(f"{entry.id} has no script; those that have: {', '.join(with_script())}")
    found: dict[str, _Part] = {}

    def add(name: str) -> None:
        if name in found:
            return
        part = _Part(name, _texts()[name])
        for each in part.imports:
            for inner in _modules(each):
                if inner.startswith("_"):
                    add(inner)
        found[name] = part

    add(_stem(entry.id))
    return [*found.values()]


def _put_together(entry: Finding, release: str, parts: list[_Part], usage: str) -> str:
    own = next(each for each in parts if each.name == _stem(entry.id))
    for index, part in reversed([*enumerate(parts)]):
        if part is not own and part.name not in (_LOADER, "test"):
            part.keep({name for later in parts[index + 1 :] for name in later.names()})
    used = {name for part in parts for name in part.names()}
    imports = [each for part in parts for each in part.imports if _wanted(each, used)]
    told = [
        _wrapped(f"{entry.id}: {entry.symptom}."),
        own.told,
        _wrapped(f"In vllm {release}: {entry.place.words()}."),
    ]
    head = "\n\n".join(each for each in told if each)
    sections = [f'"""{head}\n\n{usage}\n"""' if usage else f'"""{head}\n"""']
    sections.append(_grouped([each for each in imports if not _of_target(each)]))
    loader = [part for part in parts if part.name == _LOADER]
    sections += [f"\n{_commented(part.told)}\n\n\n{part.text()}" for part in loader]
    sections.append(_grouped([each for each in imports if _of_target(each)]))
    for part in parts:
        if part.name != _LOADER:
            told = "" if part is own or part.name == "test" else f"{_commented(part.told)}\n\n\n"
            sections.append(f"\n{told}{part.text()}")
    return "\n\n".join(each for each in sections if each) + "\n"


def _is_docstring(each: ast.stmt) -> bool:
    return isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _defined(each: ast.stmt) -> set[str]:
    """The names that a statement of a module gives to something, if that is all that it does."""
    if isinstance(each, ast.FunctionDef | ast.ClassDef):
        return {each.name}
    return _names(each.targets[0]) if isinstance(each, ast.Assign) else set()


def _modules(each: ast.Import | ast.ImportFrom) -> list[str]:
    return [each.module or ""] if isinstance(each, ast.ImportFrom) else [n.name for n in each.names]


def _of_target(each: ast.Import | ast.ImportFrom) -> bool:
    return _modules(each)[0].partition(".")[0] == "vllm"


def _wanted(each: ast.Import | ast.ImportFrom, used: set[str]) -> bool:
    if _modules(each)[0].startswith("_"):
        return False
    return any((name.asname or name.name).partition(".")[0] in used for name in each.names)


def _grouped(imports: list[ast.Import | ast.ImportFrom]) -> str:
    """Import statements, each once and in order: the standard library's first."""
    lines = sorted({ast.unparse(each) for each in imports}, key=_rank)
    groups = [[line for line in lines if _rank(line)[0] == own] for own in (False, True)]
    return "\n\n".join("\n".join(group) for group in groups if group)


def _rank(line: str) -> tuple[bool, bool, str]:
    root = line.split()[1].partition(".")[0]
    return root not in sys.stdlib_module_names, line.startswith("from"), line


def _commented(text: str) -> str:
    return textwrap.indent(text, "# ", lambda line: bool(line.strip())).replace("\n\n", "\n#\n")


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False)
