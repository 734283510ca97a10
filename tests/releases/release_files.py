"""The files of a published release, or a skip where none can be had."""

from __future__ import annotations

import os

import pytest

from killpoint.errors import CannotWork
from killpoint.targets.registry import resolve
from killpoint.targets.vllm.fetch.specs import find
from killpoint.targets.vllm.project import VLLM
from killpoint.targets.vllm.sources import Sources


def release_files(version: str) -> Sources:
    """Those of a release of vLLM; in CI it is an error if they cannot be had."""
    try:
        return find(resolve(f"vllm=={version}"), VLLM)
    except CannotWork as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no release archive can be had: {error}")
