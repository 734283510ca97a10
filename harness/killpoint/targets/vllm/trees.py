"""A working tree of vLLM, used where it lies."""

from __future__ import annotations

import ast
from email.parser import HeaderParser
from pathlib import Path

from killpoint.errors import BadUsage
from killpoint.targets.vllm.sources import FOLDER, QUEUE, Sources


def locate(text: str) -> Sources:
    """The tree behind ``vllm@PATH``: a checkout, or any folder that has ``vllm`` in it.

    Raises:
        BadUsage: there is no such tree.
    """
    path = Path(text).expanduser()
    if not text or not path.is_dir():
        raise BadUsage(f"vllm@{text}: no such folder")
    root = path.resolve()
    if root.name == "vllm" and not (root / FOLDER).is_dir():
        root = root.parent
    if not (root / FOLDER / f"{QUEUE}.py").is_file():
        raise BadUsage(f"vllm@{text}: {root} has no {FOLDER / QUEUE}.py")
    return Sources(
        spec=f"vllm@{root}",
        version=_version(root) or "tree",
        root=root,
        expected=None,
        origin=f"working tree {root}",
    )


def _version(root: Path) -> str | None:
    generated = root / "vllm" / "_version.py"
    if generated.is_file():
        found = _assigned(generated)
        if found is not None:
            return found
    for folder in (root, root / "vllm.egg-info"):
        info = folder / "PKG-INFO"
        if info.is_file():
            headers = HeaderParser().parsestr(info.read_text("utf-8", "replace"))
            return headers["Version"]
    return None


def _assigned(path: Path) -> str | None:
    """The version that a generated file assigns, without running it."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return None
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if names & {"version", "__version__"} and isinstance(node.value.value, str):
                return node.value.value
    return None
