"""The ready workflows name scripts, options and files that exist, and keep what was found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from killpoint.cli import main

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / "ci" / "workflows").glob("*-gpu-gate.yml"))


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.stem)
def text(request: pytest.FixtureRequest) -> str:
    """A workflow, without its comments."""
    lines = request.param.read_text("utf-8").splitlines()
    return "\n".join(re.sub(r"(^|\s)#.*", "", line) for line in lines)


def test_there_are_two() -> None:
    assert [path.name.partition("-")[0] for path in WORKFLOWS] == ["buildkite", "github"]


def test_every_script_is_there(text: str) -> None:
    scripts = re.findall(r"killpoint/(\S+\.(?:sh|py))", text)
    assert scripts == ["ci/gpu-gate.sh"]
    assert all((ROOT / script).is_file() for script in scripts)


def unknown(options: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Those that ``killpoint check`` does not have."""
    with pytest.raises(SystemExit):
        main(["check", "--help"])
    told = capsys.readouterr().out
    return [option for option in options if f"{option} " not in told]


def test_every_option_is_one_of_check(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = text.partition("gpu-gate.sh")[2].partition("\n\n")[0]
    options = re.findall(r"\s(--[a-z]+)", command)
    assert "--target" in options
    assert unknown(options, capsys) == []


def test_what_the_gate_itself_asks_of_check_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    gate = (ROOT / "ci" / "gpu-gate.sh").read_text("utf-8")
    [asked] = re.findall(r'killpoint" check (.*?)"\$@"', gate, re.DOTALL)
    options = re.findall(r"--[a-z]+", asked)
    assert options == ["--device", "--out", "--junit", "--summary"]
    assert unknown(options, capsys) == []


def test_one_run_at_a_time_is_on_a_gpu_and_its_folder_is_kept(text: str) -> None:
    assert re.search(r"concurrency(_group)?:", text)
    assert re.search(r"GPU_GATE_OUT: .*runs/gpu", text)
    assert re.search(r"path: runs/|runs/gpu/\*\*/\*", text)


def test_nothing_that_says_something_of_the_target_is_tried_again(text: str) -> None:
    retried = {int(status) for status in re.findall(r"exit_status: (-?\d+)", text)}
    assert retried <= {-1, 70}
    assert '"*"' not in text


def test_they_are_yaml(text: str) -> None:
    read = yaml.safe_load(text)
    steps = read["steps"] if "steps" in read else read["jobs"]["gate"]["steps"]
    assert any("gpu-gate.sh" in str(step.get("run", step.get("command"))) for step in steps)
    kept = [step for step in steps if "upload-artifact" in str(step.get("uses"))]
    assert all(step["if"] == "always()" for step in kept)
