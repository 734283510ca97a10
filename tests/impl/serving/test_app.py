"""Wherever a path leads, the answer has one shape; with a key, only who has it gets in."""

from __future__ import annotations

import pytest

from refengine.serving.app import application
from refengine.serving.service import Service

from .exchange import answer


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/completions", 405),
        ("POST", "/health", 405),
        ("GET", "/v1/models/none", 404),
    ],
)
def test_where_nothing_is_an_error_says_so(method: str, path: str, status: int) -> None:
    got = answer(application(Service()), method, path)
    assert got.status == status
    assert set(got.json["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("sent", "status"),
    [("", 401), ("Bearer wrong", 401), ("secret", 401), ("Bearer secret", 200)],
)
@pytest.mark.parametrize("path", ["/v1/models", "/metrics"])
def test_with_a_key_only_who_sends_it_is_served(sent: str, status: int, path: str) -> None:
    got = answer(application(Service(), b"secret"), "GET", path, authorization=sent)
    assert got.status == status
    assert b"secret" not in got.body
    if status == 401:
        assert got.headers["www-authenticate"] == "Bearer"


def test_who_has_no_key_is_not_listened_to() -> None:
    got = answer(application(Service(), b"secret"), "POST", "/v1/completions", b"{")
    assert got.status == 401


def test_health_needs_no_key() -> None:
    assert answer(application(Service(), b"secret"), "GET", "/health/live").status == 200
