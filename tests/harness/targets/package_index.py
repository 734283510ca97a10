"""A package index made of files, and source archives to put into it."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

FOLDER = "vllm/distributed/device_communicators"
QUEUE = """
from vllm.logger import init_logger
logger = init_logger(__name__)
class ShmRingBuffer:
    def get_metadata(self, index): ...
    def get_data(self, index): ...
class MessageQueue:
    def acquire_write(self, timeout=None): ...
    def acquire_read(self, timeout=None): ...
    def enqueue(self, obj, timeout=None): ...
    def dequeue(self, timeout=None): ...
    def create_from_handle(handle, rank): ...
"""


class PackageIndex:
    """A simple index on disk, for one project."""

    project = "vllm"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = root.as_uri()
        self._lines: list[str] = []
        (root / self.project).mkdir(parents=True)

    def add(self, name: str, content: bytes, sha256: str | None = "right") -> Path:
        """Offer a file. ``sha256``: what the index says of it; None: nothing."""
        path = self.root / self.project / name
        path.write_bytes(content)
        told = hashlib.sha256(content).hexdigest() if sha256 == "right" else sha256
        self._lines.append(f'<a href="{name}{f"#sha256={told}" if told else ""}">{name}</a>')
        (self.root / self.project / "index.html").write_text("\n".join(self._lines))
        return path

    def release(self, version: str, files: dict[str, str] | None = None) -> Path:
        """Offer a source archive."""
        return self.add(f"vllm-{version}.tar.gz", sdist(version, files))


def sdist(version: str, files: dict[str, str] | None = None) -> bytes:
    """A source archive that looks like vLLM's, with a queue that does nothing."""
    top = f"vllm-{version}"
    content = files or {
        f"{top}/{FOLDER}/shm_broadcast.py": QUEUE,
        f"{top}/{FOLDER}/__init__.py": "",
        f"{top}/vllm/distributed/__init__.py": "",
        f"{top}/setup.py": "raise SystemExit('never run')",
        f"{top}/vllm/envs.py": "",
    }
    members = [(tarfile.TarInfo(name), text.encode()) for name, text in content.items()]
    return packed(members)


def packed(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """A compressed tar file with these members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()
