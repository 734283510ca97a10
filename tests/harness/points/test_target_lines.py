"""The lines of a target's functions: which can be run, and the map that says which were."""

from __future__ import annotations

from pathlib import Path

import pytest

from killpoint.points.target_lines import LineMap, outline

_SOURCE = '''\
"""A module."""
X = [1]

class Thing:
    """A class."""

    size = 3

    def count(self):
        """Count."""
        found = [
            each + 1
            for each in X
        ]
        return sorted(found, key=lambda each:
            -each)

    def promise(self):
        """Do nothing here."""

    def bare(self): ...

    @property
    def wide(self):
        def inner():
            return 1
        return inner()

short = lambda: 7
'''


def _outlined(tmp_path: Path) -> dict[str, tuple[int, tuple[int, ...]]]:
    path = tmp_path / "thing.py"
    path.write_text(_SOURCE)
    found = outline(str(path))
    assert found is not None
    return {each.name: (each.line, each.lines) for each in found.functions}


def test_the_lines_of_functions_are_those_below_their_heads(tmp_path: Path) -> None:
    found = _outlined(tmp_path)
    assert set(found) == {"Thing.count", "Thing.wide", "Thing.wide.<locals>.inner"}
    line, lines = found["Thing.count"]
    assert line == 9
    assert {11, 12, 13, 15, 16} >= {*lines} >= {12, 13, 15, 16}
    assert found["Thing.wide.<locals>.inner"] == (25, (26,))
    assert found["Thing.wide"][1] == (25, 27)


def test_another_text_has_another_digest(tmp_path: Path) -> None:
    path = tmp_path / "thing.py"
    path.write_text(_SOURCE)
    before = outline(str(path))
    path.write_text("\n" + _SOURCE)
    after = outline(str(path))
    assert before is not None
    assert after is not None
    assert before.digest != after.digest


@pytest.mark.parametrize("text", [None, "def broken(:\n", "x = '\0'\n"])
def test_what_is_no_python_file_has_no_outline(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "thing.py"
    if text is not None:
        path.write_text(text)
    assert outline(str(path)) is None


def _files(tmp_path: Path, *names: str) -> dict[str, str]:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("def run():\n    return 1\n")
    return {name: str(tmp_path / name) for name in names}


def test_files_that_are_not_pythons_are_named(tmp_path: Path) -> None:
    lines = LineMap(_files(tmp_path, "a/x.py", "a/y.so"))
    assert lines.others == ["a/y.so"]
    assert list(lines.outlines(["a/x.py"])) == ["a/x.py"]


def test_a_folder_is_told_as_a_whole_unless_others_share_it(tmp_path: Path) -> None:
    lines = LineMap(_files(tmp_path, "top.py", "errors.py", "a/x.py", "a/y.py", "b/z.py"))
    assert set(lines.outlines(["a/x.py"])) == {"a/x.py", "a/y.py"}
    assert set(lines.outlines(["a/x.py", "errors.py"])) == {"a/x.py", "a/y.py", "errors.py"}
    flat = LineMap(_files(tmp_path, "top.py", "errors.py"))
    assert set(flat.outlines(["errors.py"])) == {"top.py", "errors.py"}


def test_nothing_is_laid_for_a_target_without_files(tmp_path: Path) -> None:
    lines = LineMap({})
    lines.lay(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert lines.read(tmp_path) == {}
