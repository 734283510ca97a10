"""Exports: programs put together from parts, and what a replay becomes."""

from __future__ import annotations

import ast
import builtins
import sys
from pathlib import Path

import pytest

from killpoint.cli import main
from killpoint.errors import BadUsage
from killpoint.findings.export_command import exported
from killpoint.findings.issue import of_range, seen
from killpoint.findings.programs import own_text, with_script
from killpoint.findings.registry import SERVER, finding, findings
from killpoint.judgement.replay import Replayed
from killpoint.scenario import Scenario, load, parse
from killpoint.scenario.replay_text import replay_text
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario

_THE_TARGETS_OWN = {"msgspec", "numpy", "torch", "vllm", "zmq"}
every_script = pytest.mark.parametrize("id", with_script())


def _imported(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for each in ast.walk(tree):
        if isinstance(each, ast.Import):
            found |= {name.name for name in each.names}
        if isinstance(each, ast.ImportFrom):
            found.add(each.module or "")
    return {name.partition(".")[0] for name in found}


def _undefined(tree: ast.Module) -> set[str]:
    """Names that are used, and that nothing in the file gives to anything."""
    nodes = [*ast.walk(tree)]
    given = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    given |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    given |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    given |= {n.name for n in nodes if isinstance(n, ast.ExceptHandler) and n.name}
    for each in nodes:
        if isinstance(each, ast.Import | ast.ImportFrom):
            given |= {(name.asname or name.name).partition(".")[0] for name in each.names}
    used = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return used - given - {*dir(builtins)}


class TestAScript:
    @every_script
    @pytest.mark.parametrize("form", ["script", "pytest"])
    def test_needs_the_standard_library_and_what_the_target_needs(self, id: str, form: str) -> None:
        tree = ast.parse(exported(id, form))
        allowed = sys.stdlib_module_names | _THE_TARGETS_OWN
        assert _imported(tree) - allowed == ({"pytest"} if form == "pytest" else set())

    @every_script
    @pytest.mark.parametrize("form", ["script", "pytest"])
    def test_has_all_that_it_uses_and_no_more(self, id: str, form: str) -> None:
        tree = ast.parse(exported(id, form))
        assert _undefined(tree) == set()
        used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        assert {name for name in names - used if not name.startswith("test_")} == set()

    def test_names_the_release_that_is_asked_for(self) -> None:
        assert "In vllm 0.29.0: " in exported("late-replies", "script", "0.29.0")
        with pytest.raises(BadUsage, match="from 0\\.27\\.0, not in 0\\.26\\.0"):
            exported("unreserved-memory", "script", "0.26.0")

    def test_has_the_same_loader_as_all_others(self) -> None:
        loaders = {
            exported(id, "script")
            .partition("# The files of a release as")[2]
            .partition("from vllm")[0]
            for id in with_script()
            if SERVER not in finding(id).projects
        }
        assert len(loaders) == 1
        assert "TARGET_TREE" in loaders.pop()

    @every_script
    def test_is_short(self, id: str) -> None:
        """What is its own; without the loader, with the deadline, and for some with a pool."""
        assert len(own_text(id).splitlines()) <= 65
        assert len(exported(id, "pytest").splitlines()) <= 180

    def test_as_a_test_is_one_function(self) -> None:
        tree = ast.parse(exported("late-replies", "pytest"))
        names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
        assert [name for name in names if name.startswith("test_")] == ["test_late_replies"]
        assert "TARGET_TREE" not in exported("late-replies", "pytest")

    def test_of_a_finding_without_one_is_bad_usage(self) -> None:
        with pytest.raises(BadUsage, match="those that have: late-replies"):
            exported("stale-flag", "script")


def test_the_newest_release_that_has_a_finding() -> None:
    assert of_range(finding("late-replies"), None) == "0.33.0"
    assert of_range(finding("unchecked-memory"), None) == "0.26.0"


def test_an_issue_is_not_made_of_a_release_without_the_bug() -> None:
    with pytest.raises(BadUsage, match="not in 0\\.27\\.0"):
        exported("unchecked-memory", "issue", "0.27.0")


class TestAReplay:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        return self._file(tmp_path, "R3/stream")

    @staticmethod
    def _file(folder: Path, case: str) -> Path:
        made = queue_scenario(case, *OPEN_QUEUE)
        made.target = "vllm==0.33.0"
        path = folder / "replay.toml"
        cause = "reader-0 waited in receive, " + "and waited, " * 20 + "and waited"
        path.write_text(replay_text(made, "a stream", cause), "utf-8")
        return path

    def test_of_no_known_finding_has_no_script(self, file: Path) -> None:
        with pytest.raises(BadUsage, match="only findings of the registry have scripts"):
            exported(str(file), "script")

    def test_is_the_script_of_the_finding_that_its_case_is_the_exhibit_of(
        self, tmp_path: Path
    ) -> None:
        file = self._file(tmp_path, finding("late-replies").exhibit)
        assert exported(str(file), "script") == exported("late-replies", "script")

    def test_as_a_test_is_the_replay_itself_also_where_its_finding_is_known(
        self, tmp_path: Path
    ) -> None:
        file = self._file(tmp_path, finding("late-replies").exhibit)
        assert "from killpoint.judgement.replay import replay" in exported(str(file), "pytest")

    def test_as_an_issue_says_what_was_seen_and_how_to_play_it(self, file: Path) -> None:
        text = exported(str(file), "issue")
        assert f"and waited, {'and waited, ' * 10}" in seen(file.read_text("utf-8"))
        assert f"**Symptom.** {seen(file.read_text('utf-8'))}" in text
        assert "killpoint replay replay.toml" in text
        again = text.partition("```toml\n")[2].partition("```")[0]
        assert parse(again, "again") == load(file)

    def test_as_a_test_is_played_on_its_target(
        self, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        played: list[tuple[Scenario, str | None]] = []

        def replay(file: Path, target: str | None = None) -> Replayed:
            played.append((load(file), target))
            return Replayed("held" if len(played) == 1 else "reproduced", [])

        monkeypatch.setattr("killpoint.judgement.replay.replay", replay)
        names: dict[str, object] = {}
        exec(exported(str(file), "pytest"), names)
        test = names["test_r3_stream"]
        assert callable(test)
        test(tmp_path)
        assert played == [(load(file), "vllm==0.33.0")]
        with pytest.raises(AssertionError):
            test(tmp_path)


class TestTheCommand:
    def test_writes_what_it_is_asked_for(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "late.py"
        assert main(["export", "late-replies", "--as", "script", "--out", str(out)]) == 0
        assert capsys.readouterr().out == ""
        assert main(["export", "late-replies", "--as", "script"]) == 0
        assert capsys.readouterr().out == out.read_text("utf-8")

    def test_of_what_is_no_finding_is_bad_usage(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["export", "early-replies", "--as", "script"]) == 2
        assert "late-replies" in capsys.readouterr().err

    def test_of_a_file_that_is_not_there_is_bad_usage(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["export", "runs/replay.toml", "--as", "issue"]) == 2
        assert "no such file" in capsys.readouterr().err

    def test_of_a_finding_without_a_script_is_bad_usage(self) -> None:
        assert main(["export", "stale-flag", "--as", "pytest"]) == 2


def test_whatever_bites_has_a_script() -> None:
    biting = [each.id for each in findings().values() if each.impact == "bites"]
    assert [id for id in biting if id not in with_script()] == []
    assert len(with_script()) >= 12


def test_a_script_of_a_whole_server_starts_the_installed_one() -> None:
    text = exported("orphan-core", "script")
    assert "TARGET_TREE" not in text
    assert "def served():" in text
    assert "def answered(" in text
    assert "def cores(" in text
    assert "def test_orphan_core():" in exported("orphan-core", "pytest")


def test_what_each_script_is_called_is_a_finding() -> None:
    assert {*with_script()} <= {*findings()}
