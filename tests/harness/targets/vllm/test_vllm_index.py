"""The package index is whatever pip would use on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from killpoint.targets.vllm.fetch.index import configured


def settings(folder: Path, text: str) -> dict[str, str]:
    file = folder / "pip.conf"
    file.write_text(text)
    return {"PIP_CONFIG_FILE": str(file), "HOME": str(folder)}


def test_nothing_configured_means_the_default_index(tmp_path: Path) -> None:
    index = configured({"PIP_CONFIG_FILE": os.devnull, "HOME": str(tmp_path)})
    assert index.default_index
    assert index.index_urls == ()


def test_an_extra_index_does_not_replace_the_default_one(tmp_path: Path) -> None:
    index = configured(settings(tmp_path, "[global]\nextra-index-url = http://a/ http://b/\n"))
    assert index.default_index
    assert index.index_urls[-2:] == ("http://a/", "http://b/")


def test_an_index_url_replaces_the_default_one(tmp_path: Path) -> None:
    env = settings(tmp_path, "[global]\nindex_url = http://a/\nextra-index-url =\n  http://b/\n")
    index = configured(env)
    assert not index.default_index
    assert index.index_urls == ("http://a/", "http://b/")


def test_the_environment_wins_over_the_section_for_downloads_over_the_global_one(
    tmp_path: Path,
) -> None:
    env = settings(
        tmp_path, "[download]\nindex-url = http://b/\ntimeout = 7\n[global]\nindex-url = http://a/"
    )
    assert configured(env).index_urls[0] == "http://b/"
    assert configured(env).timeout == 7
    assert configured({**env, "PIP_INDEX_URL": "http://c/"}).index_urls[0] == "http://c/"


def test_no_index_leaves_only_the_links(tmp_path: Path) -> None:
    env = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_INDEX_URL": "http://a/",
        "PIP_FIND_LINKS": f"{tmp_path} {tmp_path / 'absent'}",
        "PIP_TRUSTED_HOST": "a b:8080",
        "PIP_CERT": "/some/ca.pem",
    }
    index = configured(env)
    assert (index.default_index, index.index_urls) == (False, ())
    assert index.find_links == (str(tmp_path),)
    assert index.trusted_hosts == ("a", "b:8080")
    assert index.cert == "/some/ca.pem"
