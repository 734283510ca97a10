"""A secret is recognised in each form in which it is usually shown, and in no other text."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from killpoint.runner.observe.secret_scan import own_places, shown

_KEY = bytes(range(200, 232))


@pytest.mark.parametrize(
    "text",
    [
        _KEY,
        repr(_KEY).encode(),
        _KEY.hex().encode(),
        _KEY.hex().upper().encode(),
        base64.b64encode(_KEY),
        base64.urlsafe_b64encode(_KEY),
        str(list(_KEY)).encode(),
    ],
)
def test_a_key_is_found_in_a_text_around_it(text: bytes) -> None:
    places = {"here": b"Handle(key=" + text + b")", "there": b"Handle(key=...)"}
    assert shown([_KEY], places) == ["here"]


def test_what_is_too_short_to_be_a_key_is_not_looked_for() -> None:
    assert shown([b"", b"abc"], {"here": b"abcabc"}) == []


def test_standard_error_and_environment_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints = tmp_path / "writer.err"
    complaints.write_bytes(b"key " + _KEY.hex().encode())
    monkeypatch.setenv("SECRET_OF_A_TEST", _KEY.hex())
    found = shown([_KEY], own_places(complaints))
    assert found == ["what its children inherit", "its standard error"]
    assert "its command line" in own_places(complaints)
    assert os.environ["SECRET_OF_A_TEST"] == _KEY.hex()
