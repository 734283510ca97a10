"""A browser without a window, driven over its debugging pipe."""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAME = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
_QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    " --disable-background-networking --disable-component-update --remote-debugging-pipe"
)
_WITHIN = 30.0


class Chromium:
    """One page of one browser.

    Args:
        profile: a new, empty folder.
    """

    def __init__(self, profile: Path, width: int = 1280, height: int = 900) -> None:
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        sized = f"--window-size={width},{height}"
        command = f'exec "$0" {_QUIET} {sized} --user-data-dir="$1" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["bash", "-c", command, NAME, str(profile)],
            pass_fds=(to_read, to_write),
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._numbers = itertools.count(1)
        self._unread = b""
        self.events: list[dict[str, Any]] = []
        made = self._ask("Target.createTarget", {"url": "about:blank"})
        attach = {"targetId": made["targetId"], "flatten": True}
        self._session = self._ask("Target.attachToTarget", attach)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(10)
        os.close(self._to)
        os.close(self._from)

    def ask(self, method: str, **parameters: Any) -> Any:
        """Call a method of the page's."""
        return self._ask(method, parameters, session=self._session)

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript gives."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + _WITHIN
        while not self.value(expression):
            assert time.monotonic() < end, f"the page never came to {expression}"
            select.select([], [], [], 0.02)

    def open(self, page: str) -> None:
        """Go to an address, and wait until it is loaded."""
        self.ask("Page.navigate", url=page)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def click(self, selector: str) -> None:
        """Click where an element is, as a person would."""
        place = f"document.querySelector({json.dumps(selector)})"
        self.value(f"{place}.scrollIntoView({{block: 'center'}})")
        box = self.value(f"(({place}).getBoundingClientRect().toJSON())")
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press a key, as a person would."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key)

    def _ask(self, method: str, parameters: dict[str, Any], session: str = "") -> Any:
        number = next(self._numbers)
        about = {"sessionId": session} if session else {}
        message = {"id": number, "method": method, "params": parameters, **about}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + _WITHIN
        while True:
            answer = self._next(end, method)
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def _next(self, end: float, method: str) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready = select.select([self._from], [], [], max(0.0, end - time.monotonic()))[0]
            assert ready, f"the browser did not answer {method} within {_WITHIN:g} s"
            some = os.read(self._from, 1 << 20)
            assert some, f"the browser ended in {method}"
            self._unread += some
        line, _, self._unread = self._unread.partition(b"\0")
        return json.loads(line)
