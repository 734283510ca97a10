"""Which files are a target's own, as its zygote tells them."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import refengine
from killpoint.targets.own_files import own_files
from killpoint.targets.protocol import Target
from killpoint.targets.refengine.adapter import RefengineTarget


def test_of_a_package_every_file_also_what_is_not_imported_yet() -> None:
    home = Path(refengine.__file__).parent
    found = own_files(cast("Target", RefengineTarget()))
    assert found["__init__.py"] == str(home / "__init__.py")
    assert {*found.values()} == {str(path) for path in home.rglob("*.py")}


class _Alone:
    """An adapter that is the implementation itself."""

    def is_own_code(self, code: Any) -> bool:
        return bool(code.co_filename == __file__)


def test_of_a_single_file_that_file() -> None:
    assert own_files(cast("Target", _Alone())) == {Path(__file__).name: __file__}


def test_a_target_may_say_so_itself_and_who_says_nothing_has_none() -> None:
    class Says:
        own_files = MappingProxyType({"a/b.py": Path("/x/a/b.py")})

    assert own_files(cast("Target", Says())) == {"a/b.py": "/x/a/b.py"}
    assert own_files(cast("Target", object())) == {}
