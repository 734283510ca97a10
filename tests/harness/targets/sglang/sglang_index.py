"""Archives that look like SGLang's, and a queue that does nothing."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

from package_index import PackageIndex, packed

FOLDER = "sglang/srt/distributed/device_communicators"
NAMES = "sglang/srt/utils/stale_shm_cleanup.py"
QUEUE = """
from sglang.srt.utils.network import NetworkAddress
class ShmRingBuffer:
    def get_metadata(self, index): ...
    def get_data(self, index): ...
class MessageQueue:
    def acquire_write(self): ...
    def acquire_read(self): ...
    def enqueue(self, obj): ...
    def dequeue(self): ...
    def create_from_handle(handle, rank): ...
"""
FILES = {
    f"{FOLDER}/shm_broadcast.py": QUEUE,
    f"{FOLDER}/pynccl.py": "",
    NAMES: "def make_shm_name(kind): return f'named_{kind}'",
    "sglang/srt/utils/common.py": "raise SystemExit('never run')",
}


class SglangIndex(PackageIndex):
    """An index that offers SGLang."""

    project = "sglang"

    def release(self, version: str, files: dict[str, str] | None = None) -> Path:
        """Offer a source archive."""
        top = f"sglang-{version}"
        content = FILES if files is None else files
        members = [
            (tarfile.TarInfo(f"{top}/{name}"), text.encode()) for name, text in content.items()
        ]
        return self.add(f"{top}.tar.gz", packed(members))

    def wheel(self, version: str, tags: str, files: dict[str, str] | None = None) -> Path:
        """Offer a wheel."""
        content = FILES if files is None else files
        members = [(zipfile.ZipInfo(name), text.encode()) for name, text in content.items()]
        return self.add(f"sglang-{version}-{tags}.whl", zipped(members))


def zipped(members: list[tuple[zipfile.ZipInfo, bytes]]) -> bytes:
    """A zip file with these members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for info, data in members:
            file.writestr(info, data)
    return out.getvalue()
