"""A change of the judged code: the files and functions that differ between two copies.

Code is compared, not text: a comment, a line that moved or a new layout changes nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import msgspec

from killpoint.syntax import parsed
from killpoint.targets.vllm.sources import SETTINGS, Sources


class ChangedFile(msgspec.Struct, frozen=True):
    """A file whose code differs."""

    file: str
    """Path of the file in the target's package."""
    functions: list[str]
    """Qualified names of those that differ, came or went; none where only other code differs."""

    def words(self) -> str:
        """Return words such as ``utils.py: StatelessProcessGroup.barrier``."""
        return f"{self.file}: {', '.join(self.functions)}" if self.functions else self.file


def changed(before: Sources, now: Sources) -> list[ChangedFile]:
    """Return the files that differ, of those that a judgement runs or reads settings from."""
    one, other = _texts(before), _texts(now)
    found: list[ChangedFile] = []
    for file in sorted(one.keys() | other.keys()):
        was, is_now = _code(one.get(file)), _code(other.get(file))
        if was != is_now:
            names = was.keys() | is_now.keys()
            functions = sorted(n for n in names if n and was.get(n) != is_now.get(n))
            found.append(ChangedFile(file, _innermost(functions)))
    return found


def sources(resolved: str) -> Sources:
    """The files behind a resolved spec of a project."""
    from killpoint.targets.sglang.sources import SGLANG
    from killpoint.targets.vllm.fetch import specs
    from killpoint.targets.vllm.project import VLLM

    return specs.find(resolved, SGLANG if resolved.startswith(SGLANG.name) else VLLM)


def _texts(copy: Sources) -> dict[str, bytes]:
    """Return the files' contents, by path in the package."""
    settings = copy.root / SETTINGS
    files = [*copy.files(), *([settings] if settings.is_file() else [])]
    package = copy.root / copy.folder.parts[0]
    return {path.relative_to(package).as_posix(): path.read_bytes() for path in files}


def _code(text: bytes | None) -> dict[str, str]:
    """Return each function by its qualified name, and the whole module by the empty one."""
    if text is None:
        return {}
    try:
        tree = parsed(text)
    except (SyntaxError, ValueError):
        return {"": repr(text)}
    return {"": ast.dump(tree)} | dict(_functions(tree, ""))


def _functions(inside: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(inside):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield name, ast.dump(child)
            yield from _functions(child, f"{name}.")
        else:
            yield from _functions(child, prefix)


def _innermost(names: list[str]) -> list[str]:
    """Remove functions that differ only by what stands in one of the others."""
    return [n for n in names if not any(other.startswith(f"{n}.") for other in names)]
