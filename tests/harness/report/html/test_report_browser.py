"""The report in a real browser: it opens, is clicked, and goes back."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import chromium
import pytest
from chromium import Chromium
from stored_runs import HOSTILE, keep_run, stored, violating_run

from killpoint.report.html.document import write

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not chromium.NAME, reason="no chromium on this machine"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("report")
    new = violating_run(home / "new")
    old = keep_run(stored("vllm", "0.1", {"Q6": "holds", "R6": "violated"}), home / "old")
    return write([new, old], home / "report.html").path


@pytest.fixture
def page(report: Path, tmp_path: Path) -> Generator[Chromium]:
    with Chromium(tmp_path) as browser:
        browser.open(report.as_uri())
        yield browser


_FRONT = "!document.getElementById('front').hidden && document.getElementById('cell').hidden"
_DRAWN = "document.querySelectorAll('.case[open] .diagram .event').length > 5"


def _said(page: Chromium, selector: str) -> str:
    return page.value(f"document.querySelector({selector!r}).innerText")


def test_a_click_on_a_cell_opens_its_page_and_back_is_the_front_page(page: Chromium) -> None:
    page.until(_FRONT)
    page.click("a[href='#cell/vllm-9.9/Q6']")
    page.until(_DRAWN)
    assert page.value("document.querySelectorAll('main:not([hidden])').length") == 1
    assert "reader-0 still waited" in _said(page, ".case .cause")
    assert "killpoint replay" in _said(page, ".command")
    assert _said(page, ".names").split() == ["writer", "reader-0", "reader-1"]
    assert "writer (dead by signal 9" in _said(page, ".waits")
    page.value("history.back()")
    page.until(_FRONT)
    page.value("history.forward()")
    page.until(_DRAWN)


def test_the_cursor_begins_at_the_violation_and_is_moved_by_keys_and_buttons(
    page: Chromium,
) -> None:
    page.click("a[href='#cell/vllm-9.9/Q6']")
    page.until(_DRAWN)
    assert _said(page, ".panel h4") == "reader-0: hang"
    page.click(".lanes svg")
    page.press("Home")
    assert _said(page, ".panel h4") == "writer: send"
    page.click("[data-jump=f]")
    assert _said(page, ".panel h4") == "writer: reached"
    page.press("ArrowUp")
    assert _said(page, ".panel h4") == "writer: send"
    assert "writer\truns\tin send" in _said(page, ".then")
    page.press("v")
    assert "writer\tended by signal 9" in _said(page, ".then")


def test_the_log_unfolds(page: Chromium) -> None:
    page.click("a[href='#cell/vllm-9.9/Q6']")
    page.until(_DRAWN)
    page.click(".log summary")
    page.until("document.querySelectorAll('.log pre').length === 2")
    assert _said(page, ".log pre:last-of-type") == HOSTILE
    assert page.value("document.querySelectorAll('#cell script, #cell img').length") == 0


def test_rows_can_be_filtered(page: Chromium) -> None:
    page.value(
        "(f => { f.value = 'differs'; f.dispatchEvent(new Event('change')) })"
        "(document.getElementById('filter'))"
    )
    shown = "[...document.querySelectorAll('tr[data-row]:not([hidden])')].map(r => r.dataset.row)"
    assert page.value(shown) == ["R6", "Q6"]


def test_an_address_of_no_page_says_so(report: Path, tmp_path: Path) -> None:
    with Chromium(tmp_path) as browser:
        browser.open(f"{report.as_uri()}#cell/absent/Q6")
        browser.until("document.querySelector('#cell h1') !== null")
        assert "no such page" in _said(browser, "#cell h1")


def test_nothing_but_the_file_is_loaded_and_soon_and_without_an_error(page: Chromium) -> None:
    page.click("a[href='#cell/vllm-9.9/Q6']")
    page.until(_DRAWN)
    methods = [event["method"] for event in page.events]
    asked = [e for e in page.events if e["method"] == "Network.requestWillBeSent"]
    assert [e["params"]["request"]["url"].rpartition("/")[2] for e in asked] == ["report.html"]
    assert "Runtime.exceptionThrown" not in methods
    assert page.value("performance.getEntriesByType('navigation')[0].loadEventEnd") < 2000


def test_a_narrow_page_does_not_scroll_sideways(report: Path, tmp_path: Path) -> None:
    with Chromium(tmp_path, width=500) as browser:
        browser.open(f"{report.as_uri()}#cell/vllm-9.9/Q6")
        browser.until(_DRAWN)
        assert browser.value("document.documentElement.scrollWidth <= innerWidth")
        browser.value("location.hash = ''")
        browser.until(_FRONT)
        assert browser.value("document.documentElement.scrollWidth <= innerWidth")
