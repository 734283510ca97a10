"""A campaign finds a planted mutant, and what it writes of it plays it again."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from rich.console import Console

from killpoint.campaign import settings
from killpoint.campaign.findings import Findings
from killpoint.campaign.history import CampaignHistory
from killpoint.campaign.journal import Journal
from killpoint.campaign.progress import ProgressPrinter
from killpoint.campaign.run import Campaign
from killpoint.campaign.settings import Settings
from killpoint.campaign.worker_pool import LocalPool
from killpoint.cli import main
from killpoint.judgement.replay import replay

FAULTY = "mutated:r1_flags_reset_after_publication"
CASE = "R1/two-readers"
_SECONDS = 60.0
"""At most: it ends when the finding was shrunk, after some four where nothing else runs."""


def test_a_planted_mutant_is_found_and_its_scenario_reproduces_it(
    tmp_path: Path, leftovers: Callable[[], set[str]]
) -> None:
    chosen = Settings(FAULTY, [CASE], jobs=1)
    settings.create(tmp_path, chosen)
    findings, past = Findings(tmp_path / "findings"), CampaignHistory()

    def shrunk() -> str:
        return "shrunk" if any(key.startswith("shrink") for key in past.ended) else ""

    with (
        closing(LocalPool(FAULTY, "cpu", jobs=1)) as pool,
        Journal(settings.journal_of(tmp_path)) as journal,
    ):
        tell = ProgressPrinter(Console(quiet=True), None)
        session = Campaign(tmp_path, chosen, pool, journal, past, tell)
        session.play(os.getpid(), _SECONDS, shrunk)
    (found,) = findings.all()
    assert (found.case.id, found.case.kind) == (CASE, "bad-transition")
    assert found.replay is not None
    assert replay(found.replay).status() == 1
    assert main(["campaign", "--status", str(tmp_path)]) == 1
    assert main(["recheck", str(found.folder)]) == 1
    assert leftovers() == set()
