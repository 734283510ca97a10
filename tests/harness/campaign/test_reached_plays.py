"""A campaign on the reference records which of its lines drawn programs run, over two sessions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console

from killpoint.campaign import reached as store
from killpoint.campaign import settings
from killpoint.campaign.history import CampaignHistory
from killpoint.campaign.journal import Journal
from killpoint.campaign.progress import ProgressPrinter
from killpoint.campaign.run import Campaign
from killpoint.campaign.settings import Settings
from killpoint.campaign.worker_pool import LocalPool
from killpoint.cli import main

_CASE = "H2/generated"
_SECONDS = 300.0
"""At most: a session ends with the item that it waits for, after some seconds."""


def _session(folder: Path, until: str) -> None:
    chosen = settings.load(folder)
    past = CampaignHistory(settings.entries_of(folder))
    with (
        closing(LocalPool(chosen.target, "cpu", jobs=1)) as pool,
        Journal(settings.journal_of(folder)) as journal,
    ):
        tell = ProgressPrinter(Console(quiet=True), None)
        campaign = Campaign(folder, chosen, pool, journal, past, tell)
        campaign.play(1, _SECONDS, lambda: "enough" if until in past.ended else "")


def test_what_drawn_programs_reach_is_kept_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], leftovers: Callable[[], set[str]]
) -> None:
    settings.create(tmp_path, Settings(only=[_CASE], jobs=1))
    _session(tmp_path, f"{_CASE}@0")
    once = store.load(tmp_path)
    assert once.items == [f"{_CASE}@0"]
    assert main(["campaign", "--status", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "group/member.py" in said
    assert "by H2)" in said
    assert "ring/writer.py" not in said, "a group has no ring"
    assert "StoreGroup" in (tmp_path / "never-reached.txt").read_text()
    _session(tmp_path, f"{_CASE}@1")
    twice = store.load(tmp_path)
    assert twice.items == [f"{_CASE}@0", f"{_CASE}@1"]
    assert twice.cases[_CASE].plays > once.cases[_CASE].plays > 0
    for name, file in once.files.items():
        assert file.first.items() <= twice.files[name].first.items()
    assert any((tmp_path / "examples").rglob("*"))
    assert leftovers() == set()
