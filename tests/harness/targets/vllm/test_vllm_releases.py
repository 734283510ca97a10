"""A release is fetched once, whole and as the index described it, or not at all."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import pytest
from package_index import FOLDER, QUEUE, PackageIndex, packed, sdist

from killpoint.errors import BadUsage, CannotWork, KillpointError
from killpoint.targets import vllm
from killpoint.targets.vllm.fetch import archive, releases

NOWHERE = "http://127.0.0.1:1/simple"


def refused(spec: str, kind: type[KillpointError]) -> str:
    """The one line that the user sees."""
    with pytest.raises(kind) as caught:
        vllm.resolve(spec)
    text = str(caught.value)
    assert "\n" not in text
    return text


def files_in(cache: Path) -> list[str]:
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())


def test_only_what_is_served_and_its_kin_are_kept(package_index: PackageIndex, cache: Path) -> None:
    package_index.release("1.2.3")
    assert vllm.resolve("vllm==1.2.3") == "vllm==1.2.3"
    home = "vllm/1.2.3"
    assert files_in(cache) == [
        f"{home}/source.json",
        f"{home}/vllm/distributed/__init__.py",
        f"{home}/{FOLDER}/__init__.py",
        f"{home}/{FOLDER}/shm_broadcast.py",
        f"{home}/vllm/envs.py",
    ]
    assert (cache / home / FOLDER / "shm_broadcast.py").read_text() == QUEUE


def test_the_second_use_needs_no_index(
    package_index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    package_index.release("1.2.3")
    resolved = vllm.resolve("vllm==1.2.3")
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    assert vllm.resolve("vllm==1.2.3") == resolved
    assert vllm.build(resolved).version == "1.2.3"


def stored_by_an_older_killpoint(monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    """One that kept the queue's folder alone."""
    with monkeypatch.context() as older:
        older.setattr(archive, "WANTED", frozenset({PurePosixPath(FOLDER)}))
        vllm.resolve(spec)


def test_what_an_older_killpoint_stored_is_completed(
    package_index: PackageIndex, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package_index.release("1.2.3")
    stored_by_an_older_killpoint(monkeypatch, "vllm==1.2.3")
    added = cache / "vllm" / "1.2.3" / "vllm" / "distributed" / "__init__.py"
    assert not added.exists()
    assert vllm.resolve("vllm==1.2.3") == "vllm==1.2.3"
    assert added.exists()
    assert [path.name for path in (cache / "vllm").iterdir()] == ["1.2.3"]


def test_what_an_older_killpoint_stored_will_do_where_there_is_no_index(
    package_index: PackageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    package_index.release("1.2.3")
    stored_by_an_older_killpoint(monkeypatch, "vllm==1.2.3")
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    assert "group" not in vllm.build(vllm.resolve("vllm==1.2.3")).capabilities


def test_building_never_fetches(package_index: PackageIndex) -> None:
    package_index.release("1.2.3")
    with pytest.raises(CannotWork, match="never fetched"):
        vllm.build("vllm==1.2.3")


@pytest.mark.parametrize("spec", ["vllm==new", "vllm==", "vllm==1.*", "vllm>=1", "vllmx", "vllm"])
def test_what_is_not_a_release_is_refused(spec: str) -> None:
    assert "vllm==X.Y.Z" in refused(spec, BadUsage)


def test_an_unknown_release_is_refused_with_its_neighbours(
    package_index: PackageIndex, cache: Path
) -> None:
    for version in ("1.0.0", "1.1.0", "1.3.0", "2.0.0"):
        package_index.release(version)
    text = refused("vllm==1.2.0", BadUsage)
    assert "no such release" in text
    assert "1.0.0, 1.1.0, 1.3.0, 2.0.0" in text
    assert files_in(cache) == []


def test_a_release_without_source_is_refused_with_its_neighbours(
    package_index: PackageIndex,
) -> None:
    package_index.release("1.0.0")
    package_index.add("vllm-1.1.0-cp38-abi3-manylinux1_x86_64.whl", b"")
    text = refused("vllm==1.1.0", BadUsage)
    assert "without a source archive" in text
    assert "1.0.0" in text


def test_a_release_without_a_queue_is_refused_and_not_kept(
    package_index: PackageIndex, cache: Path
) -> None:
    top = f"vllm-1.0.0/{FOLDER}"
    package_index.release("1.0.0", {f"{top}/shm_broadcast.py": "class Other: ..."})
    package_index.release("0.1.0", {f"{top}/other.py": ""})
    assert "no message queue" in refused("vllm==1.0.0", BadUsage)
    assert "shm_broadcast.py" in refused("vllm==0.1.0", BadUsage)
    assert files_in(cache) == []


def test_another_file_than_the_index_described_is_not_kept(
    package_index: PackageIndex, cache: Path
) -> None:
    package_index.add("vllm-1.0.0.tar.gz", sdist("1.0.0"), sha256="0" * 64)
    assert "does not match" in refused("vllm==1.0.0", CannotWork)
    assert files_in(cache) == []


def test_an_index_without_hashes_is_used_and_named(package_index: PackageIndex) -> None:
    content = sdist("1.0.0")
    package_index.add("vllm-1.0.0.tar.gz", content, sha256=None)
    vllm.resolve("vllm==1.0.0")
    found = releases.stored(releases.parse("1.0.0"))
    assert found is not None
    assert hashlib.sha256(content).hexdigest() in found.origin
    assert "the index gave none" in found.origin


def test_a_folder_of_archives_will_do(
    package_index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "links").mkdir()
    package_index.release("1.0.0").rename(tmp_path / "links" / "vllm-1.0.0.tar.gz")
    monkeypatch.setenv("PIP_NO_INDEX", "true")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    assert vllm.resolve("vllm==1.0.0") == "vllm==1.0.0"


def test_an_unreachable_index_is_not_taken_for_an_empty_one(
    package_index: PackageIndex, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package_index.release("1.0.0")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", NOWHERE)
    assert "127.0.0.1:1" in refused("vllm==2.0.0", CannotWork)
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    assert "no package index here" in refused("vllm==1.0.0", CannotWork)
    assert files_in(cache) == []


@pytest.mark.parametrize(
    "name",
    ["../../outside.py", "/tmp/outside.py", f"vllm-1/{FOLDER}/../../../../outside.py", "a\\b.py"],
)
def test_an_archive_that_reaches_outside_is_refused(
    package_index: PackageIndex, cache: Path, tmp_path: Path, name: str
) -> None:
    package_index.release("1", {f"vllm-1/{FOLDER}/shm_broadcast.py": QUEUE, name: "evil"})
    assert "outside" in refused("vllm==1", CannotWork)
    assert files_in(cache) == []
    assert not list(tmp_path.rglob("outside.py"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_an_archive_with_a_link_for_a_file_is_refused(
    package_index: PackageIndex, cache: Path, kind: bytes
) -> None:
    link = tarfile.TarInfo(f"vllm-1/{FOLDER}/shm_broadcast.py")
    link.type, link.linkname = kind, "/etc/passwd"
    package_index.add("vllm-1.tar.gz", packed([(link, b"")]))
    assert "something else than a file" in refused("vllm==1", CannotWork)
    assert files_in(cache) == []


@pytest.mark.parametrize("content", [b"not an archive", sdist("1")[:-40]])
def test_a_damaged_archive_is_refused(
    package_index: PackageIndex, cache: Path, content: bytes
) -> None:
    package_index.add("vllm-1.tar.gz", content)
    assert "damaged" in refused("vllm==1", CannotWork)
    assert files_in(cache) == []


def test_an_absurdly_large_file_is_refused(
    package_index: PackageIndex, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "LARGEST", 10)
    package_index.release("1")
    assert "bytes" in refused("vllm==1", CannotWork)
    assert files_in(cache) == []


def test_an_interrupt_leaves_nothing(
    package_index: PackageIndex, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package_index.release("1")

    def interrupted(*_: object) -> dict[str, str]:
        (cache / "vllm" / "incoming" / "release").mkdir()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(archive, "take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            vllm.resolve("vllm==1")
    assert list((cache / "vllm").iterdir()) == []
    assert vllm.resolve("vllm==1") == "vllm==1"


def test_what_a_killed_fetch_left_is_removed_by_the_next(
    package_index: PackageIndex, cache: Path
) -> None:
    package_index.release("1")
    remains = cache / "vllm" / "incoming"
    remains.mkdir(parents=True)
    (remains / "archive").write_bytes(b"half")
    vllm.resolve("vllm==1")
    assert [path.name for path in (cache / "vllm").iterdir()] == ["1"]


def test_a_place_that_cannot_be_written_is_a_clear_error(
    package_index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package_index.release("1")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KILLPOINT_CACHE", str(tmp_path / "file" / "below"))
    assert "cannot be stored" in refused("vllm==1", CannotWork)


def test_a_stored_file_that_was_changed_is_not_served(
    package_index: PackageIndex, cache: Path
) -> None:
    package_index.release("1")
    resolved = vllm.resolve("vllm==1")
    path = cache / "vllm" / "1" / FOLDER / "shm_broadcast.py"
    path.write_text(QUEUE + "# changed\n")
    assert "changed since" in refused(resolved, CannotWork)
    with pytest.raises(CannotWork, match="changed since"):
        vllm.build(resolved)


def test_the_cache_lies_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KILLPOINT_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    monkeypatch.setenv("HOME", "/c")
    assert releases.cache_folder() == Path("/a/vllm")
    monkeypatch.delenv("KILLPOINT_CACHE")
    assert releases.cache_folder() == Path("/b/killpoint/vllm")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert releases.cache_folder() == Path("/c/.cache/killpoint/vllm")


@pytest.mark.network
def test_a_published_release_is_what_the_index_says(
    cache: Path, published: Callable[[str], str]
) -> None:
    assert published("0.11.0") == "vllm==0.11.0"
    found = releases.stored(releases.parse("0.11.0"))
    assert found is not None
    assert "as given by the index" in found.origin
    assert found.features().cancel_event
    assert (cache / "vllm" / "0.11.0" / FOLDER / "shm_broadcast.py").is_file()
