"""The page on the architecture: what it names exists, and its layers are those that are checked."""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path

from doc_pages import ROOT, prose

_PAGE = ROOT / "docs" / "architecture.md"
_PACKAGES = {"killpoint": ROOT / "harness" / "killpoint", "refengine": ROOT / "impl" / "refengine"}
_DOTTED = re.compile(r"\b(?:killpoint|refengine)(?:\.\w+)+")
_CLASS = re.compile(r"[A-Z]\w*(?:\.\w+)?")
_PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*(?:/|\.(?:py|md|sh|toml))")
_OF_A_SYSTEM = re.compile(r"^systems\.(?!server\.)\w+\.")
_NOT_OURS = {"BaseException"}


def _in_backticks() -> list[str]:
    return sorted(set(re.findall(r"`([^`\n]+)`", prose(_PAGE))))


@functools.cache
def _classes() -> dict[str, set[str]]:
    """Each class of both packages, and the methods of all that have this name."""
    found: dict[str, set[str]] = {}
    for folder in _PACKAGES.values():
        for path in folder.rglob("*.py"):
            parts = re.split(r"^class (\w+)", path.read_text("utf-8"), flags=re.MULTILINE)
            for name, body in zip(parts[1::2], parts[2::2], strict=True):
                methods = re.findall(r"^    (?:async )?def (\w+)", body, re.MULTILINE)
                found.setdefault(name, set()).update(methods)
    return found


def _defined(path: Path) -> set[str]:
    """What a module defines at its top level."""
    text = path.read_text("utf-8")
    return set(re.findall(r"^(?:(?:class|def) )?(\w+)(?=[(:= ])", text, re.MULTILINE))


def _exists(dotted: str) -> bool:
    """Whether a module, or a name that it defines, or a method of a class of its, is there."""
    package, *rest = dotted.split(".")
    path = _PACKAGES[package]
    while rest and (path / rest[0]).is_dir():
        path /= rest.pop(0)
    if rest and path.joinpath(f"{rest[0]}.py").is_file():
        path /= f"{rest.pop(0)}.py"
    if not rest:
        return path.exists()
    module = path if path.is_file() else path / "__init__.py"
    methods = _classes().get(rest[0], set())
    return rest[0] in _defined(module) and (not rest[1:] or rest[1] in methods)


def test_every_dotted_name_is_there() -> None:
    dotted = sorted(set(_DOTTED.findall(_PAGE.read_text("utf-8"))))
    assert len(dotted) > 100
    assert not [each for each in dotted if not _exists(each)]


def test_every_path_is_there() -> None:
    paths = [each for each in _in_backticks() if _PATH.fullmatch(each)]
    assert len(paths) > 10
    folders = (ROOT, _PACKAGES["killpoint"], _PACKAGES["killpoint"] / "checkers")
    assert not [each for each in paths if not any(any(f.glob(each)) for f in folders)]


def test_every_class_and_method_is_there() -> None:
    named = [each for each in _in_backticks() if _CLASS.fullmatch(each) and each not in _NOT_OURS]
    assert len(named) > 20
    known = _classes()
    missing = [
        each
        for owner, _, method in (name.partition(".") for name in named)
        if (each := f"{owner}.{method}".rstrip("."))
        and (owner not in known or (method and method not in known[owner]))
    ]
    assert not missing


def test_the_layers_are_those_of_the_import_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    contract = next(each for each in settings["contracts"] if each["id"] == "layers")
    checked = [
        list(dict.fromkeys(_OF_A_SYSTEM.sub("systems.*.", module) for module in modules))
        for layer in contract["layers"]
        if (modules := re.findall(r"\(([\w.]+)\)", layer))
    ]
    rows = re.findall(r"^  \| [\w ]+ \| (`[^|]*`) \|", prose(_PAGE), re.MULTILINE)
    shown = [re.findall(r"`([\w.*]+)`", row) for row in rows]
    assert shown == [layer for layer in checked if layer != ["__main__"]]
