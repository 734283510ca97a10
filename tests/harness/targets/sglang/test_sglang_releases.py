"""A release of SGLang is fetched like one of vLLM's, from a wheel where it has no source."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest
from sglang_index import FILES, FOLDER, NAMES, QUEUE, SglangIndex, zipped

from killpoint.errors import BadUsage, CannotWork, KillpointError
from killpoint.targets import registry, sglang
from killpoint.targets.sglang.sources import SGLANG
from killpoint.targets.vllm.fetch import archive, releases

NOWHERE = "http://127.0.0.1:1/simple"
ANY = "py3-none-any"
MANY = ("cp313-cp313-manylinux_2_34_x86_64", "cp311-cp311-manylinux_2_34_aarch64")


@pytest.fixture
def package_index(
    tmp_path: Path, cache: Path, no_pip_settings: None, monkeypatch: pytest.MonkeyPatch
) -> SglangIndex:
    """An index without a network, configured as this machine's only one."""
    made = SglangIndex(tmp_path / "simple")
    monkeypatch.setenv("PIP_INDEX_URL", made.url)
    return made


def refused(spec: str, kind: type[KillpointError]) -> str:
    """The one line that the user sees."""
    with pytest.raises(kind) as caught:
        registry.resolve(spec)
    text = str(caught.value)
    assert "\n" not in text
    return text


def files_in(cache: Path) -> list[str]:
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())


def origin(version: str) -> str:
    found = releases.stored(releases.parse(version, SGLANG), SGLANG)
    assert found is not None
    return found.origin


KEPT = [
    f"sglang/1.2.3/{FOLDER}/pynccl.py",
    f"sglang/1.2.3/{FOLDER}/shm_broadcast.py",
    f"sglang/1.2.3/{NAMES}",
    "sglang/1.2.3/source.json",
]


def test_only_the_queue_and_its_kin_are_kept(package_index: SglangIndex, cache: Path) -> None:
    package_index.release("1.2.3")
    assert registry.resolve("sglang==1.2.3") == "sglang==1.2.3"
    assert files_in(cache) == KEPT


def test_a_release_without_source_is_taken_from_its_wheel(
    package_index: SglangIndex, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package_index.wheel("1.2.3", ANY)
    assert registry.resolve("sglang==1.2.3") == "sglang==1.2.3"
    assert files_in(cache) == KEPT
    assert (cache / KEPT[1]).read_text() == QUEUE
    assert "as given by the index" in origin("1.2.3")
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    assert registry.build(registry.resolve("sglang==1.2.3")).version == "1.2.3"


@pytest.mark.parametrize("tags", [MANY, MANY[::-1]])
def test_of_many_wheels_every_machine_takes_the_same(
    package_index: SglangIndex, tags: tuple[str, ...]
) -> None:
    for tag in tags:
        package_index.wheel("1.0.0", tag)
    registry.resolve("sglang==1.0.0")
    assert f"sglang-1.0.0-{MANY[1]}.whl" in origin("1.0.0")


def test_source_is_preferred_to_wheels_and_a_wheel_for_all_to_one_for_some(
    package_index: SglangIndex,
) -> None:
    for version in ("1.0.0", "1.1.0"):
        package_index.wheel(version, MANY[1])
        package_index.wheel(version, ANY)
    package_index.release("1.0.0")
    for version in ("1.0.0", "1.1.0"):
        registry.resolve(f"sglang=={version}")
    assert "sglang-1.0.0.tar.gz" in origin("1.0.0")
    assert ANY in origin("1.1.0")


def test_an_unknown_release_is_refused_with_its_neighbours(
    package_index: SglangIndex, cache: Path
) -> None:
    package_index.release("1.0.0")
    package_index.wheel("2.0.0", ANY)
    assert "no such release; nearest with one: 1.0.0, 2.0.0" in refused("sglang==1.2.0", BadUsage)
    assert files_in(cache) == []


def test_a_release_before_the_queue_is_refused(package_index: SglangIndex, cache: Path) -> None:
    package_index.release("1.0.0", {f"{FOLDER}/other.py": ""})
    assert "shm_broadcast.py" in refused("sglang==1.0.0", BadUsage)
    assert files_in(cache) == []


@pytest.mark.parametrize("spec", ["sglang==new", "sglang==", "sglang>=1", "sglangx", "sglang"])
def test_what_is_not_a_release_is_refused(spec: str) -> None:
    assert "sglang==X.Y.Z" in refused(spec, BadUsage)


@pytest.mark.parametrize("name", ["sglang_mine", "sglang.mine", "vllm_mine"])
def test_a_module_may_be_called_alike(name: str) -> None:
    assert "module:object, installed or in a folder on PYTHONPATH" in refused(
        f"{name}:Target", BadUsage
    )


def test_an_index_that_is_down_is_said_so(
    package_index: SglangIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", NOWHERE)
    text = refused("sglang==1.0.0", CannotWork)
    assert "no package index here offers an archive" in text
    assert "127.0.0.1:1" in text


def test_building_never_fetches(package_index: SglangIndex) -> None:
    package_index.release("1.2.3")
    with pytest.raises(CannotWork, match="never fetched"):
        registry.build("sglang==1.2.3")


@pytest.mark.parametrize("name", ["../../outside.py", "/tmp/outside.py", "sglang/../../out.py"])
def test_a_wheel_that_reaches_outside_is_refused(
    package_index: SglangIndex, cache: Path, tmp_path: Path, name: str
) -> None:
    package_index.wheel("1", ANY, {**FILES, name: "evil"})
    assert "outside" in refused("sglang==1", CannotWork)
    assert files_in(cache) == []
    assert not list(tmp_path.rglob("out*.py"))


def test_a_wheel_with_a_link_for_a_file_is_refused(package_index: SglangIndex, cache: Path) -> None:
    link = zipfile.ZipInfo(f"{FOLDER}/shm_broadcast.py")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    package_index.add(f"sglang-1-{ANY}.whl", zipped([(link, b"/etc/passwd")]))
    assert "something else than a file" in refused("sglang==1", CannotWork)
    assert files_in(cache) == []


def test_a_damaged_wheel_is_refused(package_index: SglangIndex, cache: Path) -> None:
    whole = zipped([(zipfile.ZipInfo(name), text.encode()) for name, text in FILES.items()])
    at = whole.index(b"sglang.srt.utils") - 8
    broken = whole[:at] + bytes(8) + whole[at + 8 :]
    for version, content in (("1", b"no wheel"), ("2", whole[:-40]), ("3", broken)):
        package_index.add(f"sglang-{version}-{ANY}.whl", content)
        assert "damaged" in refused(f"sglang=={version}", CannotWork)
    assert files_in(cache) == []


def test_an_absurdly_large_file_in_a_wheel_is_refused(
    package_index: SglangIndex, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "LARGEST", 10)
    package_index.wheel("1", ANY)
    assert "bytes" in refused("sglang==1", CannotWork)
    assert files_in(cache) == []


@pytest.mark.parametrize("within", ["python", ""])
def test_a_working_tree_is_found_from_its_root_and_from_its_package(
    tmp_path: Path, within: str
) -> None:
    package = tmp_path / within / FOLDER
    package.mkdir(parents=True)
    (package / "shm_broadcast.py").write_text(QUEUE)
    (tmp_path / within / "sglang" / "version.py").write_text('__version__ = "1.2.3"\n')
    spec = f"sglang@{(tmp_path / within).resolve()}"
    for path in (tmp_path, tmp_path / within, tmp_path / within / "sglang"):
        assert registry.resolve(f"sglang@{path}") == spec
    assert sglang.build(spec).version == "1.2.3"


@pytest.mark.parametrize("path", ["", "/no/such/folder", "/"])
def test_a_folder_without_sglang_is_refused(path: str) -> None:
    assert "no " in refused(f"sglang@{path}", BadUsage)
