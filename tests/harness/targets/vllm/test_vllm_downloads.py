"""Fetching over HTTP: a broken transfer keeps nothing, and two at once transfer once."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from package_index import sdist

from killpoint.errors import CannotWork
from killpoint.targets import vllm


class Server:
    """An index with one release, which can be told to fail."""

    def __init__(self) -> None:
        self.content = sdist("1.0.0")
        self.transfers = 0
        self.page_status = 200
        self.archive_status = 200
        self.cut_at: int | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def log_message(self, format: str, *args: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/simple"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if request.path.endswith(".tar.gz"):
            self.transfers += 1
            request.send_response(self.archive_status)
            request.send_header("Content-Length", str(len(self.content)))
            request.end_headers()
            request.wfile.write(self.content[: self.cut_at])
            return
        digest = hashlib.sha256(self.content).hexdigest()
        page = f'<a href="vllm-1.0.0.tar.gz#sha256={digest}">vllm-1.0.0.tar.gz</a>'.encode()
        request.send_response(self.page_status)
        request.send_header("Content-Type", "text/html")
        request.send_header("Content-Length", str(len(page)))
        request.end_headers()
        request.wfile.write(page)


@pytest.fixture
def server(
    cache: Path,
    no_pip_settings: None,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Server]:
    made = Server()
    monkeypatch.setenv("PIP_INDEX_URL", made.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    thread = threading.Thread(target=made.http.serve_forever)
    thread.start()
    yield made
    made.http.shutdown()
    thread.join()
    made.http.server_close()


def test_a_transfer_that_breaks_off_keeps_nothing(server: Server, cache: Path) -> None:
    server.cut_at = 100
    with pytest.raises(CannotWork, match="cannot fetch"):
        vllm.resolve("vllm==1.0.0")
    assert list((cache / "vllm").iterdir()) == []
    server.cut_at = None
    assert vllm.resolve("vllm==1.0.0") == "vllm==1.0.0"


def test_a_server_that_fails_is_not_an_unknown_release(server: Server, cache: Path) -> None:
    server.page_status = 503
    with pytest.raises(CannotWork, match="503"):
        vllm.resolve("vllm==1.0.0")
    server.page_status, server.archive_status = 200, 500
    with pytest.raises(CannotWork, match="500"):
        vllm.resolve("vllm==1.0.0")
    assert list((cache / "vllm").iterdir()) == []


def test_two_at_once_transfer_it_once(server: Server) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(vllm.resolve, ["vllm==1.0.0"] * 4))
    assert found == ["vllm==1.0.0"] * 4
    assert server.transfers == 1
