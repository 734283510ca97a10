"""Records of plays, and scenario files that replay them, which a case run keeps in its folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec

from killpoint.runner.stage import Play
from killpoint.scenario import Scenario, dump, replay_text


class KeptPlays:
    """Records and replays of one case run."""

    def __init__(self, folder: Path | None, target: str, summary: str) -> None:
        """``folder``: the run's, where they are kept, if anywhere; ``summary``: of the case."""
        self.target = target
        self._folder = folder
        self._summary = summary

    def replay(self, play: Play, name: str, cause: str = "") -> str | None:
        """Keep a play's scenario and record; return the scenario's path.

        ``cause``: why it is kept.
        """
        self.record(play, name)
        return self.text(self.replay_of(play.scenario, cause), name)

    def text(self, text: str, name: str) -> str | None:
        """Keep the text of a replay file; return its path."""
        if self._folder is None:
            return None
        replay = self._folder / "replays" / f"{stem(name)}.toml"
        replay.parent.mkdir(parents=True, exist_ok=True)
        replay.write_text(text, "utf-8")
        return str(replay)

    def record(self, play: Play, name: str) -> None:
        """Keep the logs of a play, its scenario, and the ledger of what it left."""
        if self._folder is None:
            return
        record = self._folder / "plays" / stem(name)
        shutil.rmtree(record, ignore_errors=True)
        shutil.copytree(play.folder, record, ignore=_only_logs)
        scenario = msgspec.structs.replace(play.scenario, target=self.target)
        (record / "scenario.toml").write_text(dump(scenario), "utf-8")
        (record / "ledger.json").write_bytes(msgspec.json.encode(play.ledger))

    def replay_of(self, scenario: Scenario, cause: str) -> str:
        """Return the text of a replay file, with comments that say what it is."""
        kept = msgspec.structs.replace(scenario, target=self.target)
        return replay_text(kept, self._summary, cause)


def stem(name: str) -> str:
    """Return the stem of the files of a case, or of another kept object, in a run's folder."""
    return re.sub(r"[^\w.-]+", "-", name)


def _only_logs(_folder: str, names: list[str]) -> set[str]:
    return {name for name in names if not name.endswith((".jsonl", ".err"))}
