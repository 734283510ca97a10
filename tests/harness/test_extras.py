"""The bare installation: no torch, no server, and a sentence where an extra is lacking."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from killpoint import extras
from killpoint.errors import BadUsage

ROOT = Path(__file__).parents[2]
_BARE = """
import sys

class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {lacking!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuses())

import killpoint, killpoint.plugin, killpoint.judgement.replay, killpoint.inspection.command
from killpoint.cli import main
from killpoint.judgement.judge import plan
from killpoint.targets.registry import build, resolve

assert resolve("pipe_queue:PipeTarget") == "pipe_queue:PipeTarget"
assert "queue" in build("pipe_queue:PipeTarget").capabilities
assert [case.id for case in plan(["Q1"])], "no case"
assert main(["explain", "Q1"]) == 0

import importlib.util
known = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in {lacking!r} else known(name, *more)
assert main(["check", "--target", "refengine", "--only", "Q1", "--out", "/nonexistent"]) == 2
assert main(["check", "--target", "vllm==0.33.0", "--only", "Q1", "--out", "/nonexistent"]) == 2
assert main(["check", "--target", "serve:refengine", "--out", "/nonexistent"]) == 2

try:
    main(["check", "--help"])
except SystemExit as ended:
    sys.exit(ended.code)
"""


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def named(requirements: list[str]) -> set[str]:
    return {Requirement(each).name.replace("-", "_") for each in requirements}


def heavy() -> set[str]:
    return {module for modules in extras.PACKAGES.values() for module in modules}


def test_the_bare_installation_has_nothing_of_an_extra() -> None:
    assert not named(project()["dependencies"]) & {*heavy(), "coverage", "transformers", "vllm"}


@pytest.mark.parametrize("extra", sorted(extras.PACKAGES))
def test_an_extra_installs_what_is_looked_for(extra: extras.Extra) -> None:
    assert named(project()["optional-dependencies"][extra]) == set(extras.PACKAGES[extra])


def test_a_queue_is_planned_and_refusals_name_the_extra() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _BARE.format(lacking=heavy())],
        env={
            "PYTHONPATH": f"{ROOT / 'impl'}:{ROOT / 'harness'}:{ROOT / 'tests' / 'examples'}",
            "HOME": "/nonexistent",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stderr.count("Traceback")) == (0, 0), ended.stderr
    assert "--target" in ended.stdout
    told = ended.stderr.splitlines()
    assert len(told) == 3, ended.stderr
    reference = "is not installed here; expected the extra: pip install 'killpoint[reference]'"
    engines = "is not installed here; expected the extra: pip install 'killpoint[engines]'"
    assert told[0] == f"target refengine: cloudpickle {reference}"
    assert told[1] == f"target vllm==0.33.0: cloudpickle {engines}"
    assert told[2] == f"target serve:refengine: cloudpickle {reference}"


def test_a_failed_import_of_an_extra_is_told_and_any_other_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "unearth", None)
    absent = ModuleNotFoundError("No module named 'unearth.auth'", name="unearth.auth")
    assert extras.lacking_in(absent).endswith("pip install 'killpoint[engines]'")
    assert extras.lacking_in(ModuleNotFoundError("No module named 'x'", name="x")) == ""
    assert extras.lacking_in(ValueError("torch")) == ""
    with pytest.raises(BadUsage, match=r"^--this: unearth is not installed here"):
        extras.require("--this", "engines")
