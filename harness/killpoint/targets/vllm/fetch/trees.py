"""A working tree of a project, used where it lies."""

from __future__ import annotations

import ast
from email.parser import HeaderParser
from pathlib import Path

from killpoint.errors import BadUsage
from killpoint.syntax import parsed
from killpoint.targets.vllm.project import VLLM, Project
from killpoint.targets.vllm.sources import QUEUE, Sources


def locate(text: str, project: Project = VLLM) -> Sources:
    """Return the tree behind ``NAME@PATH``: a checkout, or any folder that has the package in it.

    Raises:
        BadUsage: there is no such tree.
    """
    name, folder = project.name, project.sources.folder
    path = Path(text).expanduser()
    if not text or not path.is_dir():
        raise BadUsage(f"{name}@{text}: no such folder")
    root = path.resolve()
    if root.name == name and not (root / folder).is_dir():
        root = root.parent
    places = [root / part for part in project.roots]
    root = next((place for place in places if (place / folder).is_dir()), root)
    if not (root / folder / f"{QUEUE}.py").is_file():
        raise BadUsage(f"{name}@{text}: {root} has no {folder / QUEUE}.py")
    return project.sources(
        spec=f"{name}@{root}",
        version=_version(root, name) or "tree",
        root=root,
        expected=None,
        origin=f"working tree {root}",
    )


def _version(root: Path, name: str) -> str | None:
    for file in ("_version.py", "version.py"):
        found = _assigned(root / name / file) if (root / name / file).is_file() else None
        if found is not None:
            return found
    for folder in (root, root / f"{name}.egg-info"):
        info = folder / "PKG-INFO"
        if info.is_file():
            headers = HeaderParser().parsestr(info.read_text("utf-8", "replace"))
            return headers["Version"]
    return None


def _assigned(path: Path) -> str | None:
    """Return the version that a file assigns, without running it."""
    try:
        tree = parsed(path.read_bytes())
    except (SyntaxError, ValueError):
        return None
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if names & {"version", "__version__"} and isinstance(node.value.value, str):
                return node.value.value
    return None
