"""A package index of files on this disk, and nothing in them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest


def file_index(folder: Path, monkeypatch: pytest.MonkeyPatch, versions: Sequence[str]) -> None:
    """Have pip's settings name an index that lists these of vLLM, and 0.9.1, withdrawn."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", folder.as_uri())
    files = [f"vllm-{version}.tar.gz" for version in versions]
    lines = [f'<a href="{file}">{file}</a>' for file in files]
    lines.append('<a href="vllm-0.9.1.tar.gz" data-yanked="broken">vllm-0.9.1.tar.gz</a>')
    (folder / "vllm").mkdir()
    (folder / "vllm" / "index.html").write_text("\n".join(lines))
