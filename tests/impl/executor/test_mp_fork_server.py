"""A fork server knows where it listens, and removes that and nothing else."""

import os
import socket
import tempfile
from pathlib import Path

from refengine.executor.mp_fork_server import listeners, remove

from ..roles import descriptors


def test_what_it_listens_at_is_found_and_nothing_stays_open():
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        socket.socket(socket.AF_UNIX) as ours,
        socket.socket(socket.AF_UNIX) as other,
    ):
        ours.bind(f"{folder}/listener-1")
        ours.listen()
        other.bind(f"{folder}/something")
        other.listen()
        before = descriptors()
        assert listeners() == [Path(folder, "listener-1")]
        assert descriptors() == before


def test_it_is_removed_with_its_folder_unless_there_is_more_in_it(tmp_path):
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    for folder in (alone, shared):
        folder.mkdir()
        (folder / "listener-1").touch()
    (shared / "more").touch()
    paths = [alone / "listener-1", shared / "listener-1"]
    remove(paths, os.getpid() + 1)
    assert all(path.exists() for path in paths)
    remove(paths, os.getpid())
    remove(paths, os.getpid())  # it may be gone already
    assert list(tmp_path.rglob("*")) == [shared, shared / "more"]
