"""Set-up fetches no CUDA for a machine without a GPU, and says in one line what stopped it."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNREACHABLE = {
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_RETRIES": "1",
}

spec = importlib.util.spec_from_file_location("brings_cuda", ROOT / "ci" / "brings_cuda.py")
brings_cuda = importlib.util.module_from_spec(spec)
spec.loader.exec_module(brings_cuda)


def set_up(project: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    own = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "KILLPOINT_", "COV"))}
    return subprocess.run(
        ["bash", project / "ci" / "setup.sh"],
        env=own | UNREACHABLE | settings,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "ci", tmp_path / "ci")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("version", "needs", "expected"),
    [
        ("2.13.0", ["nvidia-cudnn-cu13==9; platform_system == 'Linux'"], True),
        ("2.13.0", ["cuda-bindings<14"], True),
        ("2.13.0+cu130", [], True),
        ("2.13.0+cpu", ["sympy", "networkx"], False),
        ("2.13.0", ["nvidia-cudnn-cu13==9; platform_system == 'Windows'"], False),
        ("2.13.0", ["nvidia-cudnn-cu13==9; extra == 'gpu'"], False),
    ],
)
def test_a_cuda_build_is_told_by_what_it_needs_here(version, needs, expected):
    report = {"install": [{"metadata": {"version": version, "requires_dist": needs}}]}
    assert brings_cuda.brings_cuda(report) is expected


@pytest.mark.full  # makes an environment of its own
def test_an_unreachable_index_is_one_line_and_status_70(project):
    ended = set_up(project)
    assert ended.returncode == 70
    assert ended.stderr.count("\n") == 1
    assert "package index cannot be reached" in ended.stderr


def test_an_interpreter_that_cannot_serve_is_named_and_nothing_is_made(project):
    ended = set_up(project, PYTHON="/nonexistent/python")
    assert ended.returncode == 70
    assert ended.stderr.count("\n") == 1
    assert "/nonexistent/python" in ended.stderr
    assert not (project / ".venv").exists()
