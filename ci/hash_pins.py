#!/usr/bin/env python3
"""Writes ci/hashes.txt: the pins of ci/constraints.txt, each with the hashes of its wheels.

ci/hash_pins.py [--index URL] [--builds FOLDER]

Wheels of glibc on x86_64 are kept, for the Pythons of ci/lock_environment.py. A build with a local
version, such as torch's for the CPU, is on no public index: it is hashed as it lies in FOLDER.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import urllib.request
from pathlib import Path

from lock_environment import PYTHONS, fits
from packaging.utils import parse_wheel_filename

CI = Path(__file__).parent
HEAD = """\
# ci/constraints.txt with the sha256 of each wheel: CPython 3.11 to 3.13, glibc, x86_64.
# Written by ci/hash_pins.py.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", default="https://pypi.org/simple")
    parser.add_argument("--builds", type=Path, help="a folder of further builds of what is pinned")
    options = parser.parse_args()
    lines = [HEAD]
    for line in (CI / "constraints.txt").read_text("utf-8").splitlines()[2:]:
        name, pinned, version = line.partition("==")
        if not pinned:
            lines.append(f"{line}\n")
            continue
        lines.append(row(f"{name}=={version}", wheels(options.index, name, version)))
        if options.builds is not None:
            lines += builds(options.builds, name, version)
    (CI / "hashes.txt").write_text("".join(lines), "utf-8")


def wheels(index: str, name: str, version: str) -> list[str]:
    """The hashes of a release's wheels."""
    kind = {"Accept": "application/vnd.pypi.simple.v1+json"}
    with urllib.request.urlopen(urllib.request.Request(f"{index}/{name}/", headers=kind)) as answer:
        files = json.load(answer)["files"]
    found = [
        each["hashes"]["sha256"]
        for each in files
        if each["filename"].endswith(".whl")
        and each["filename"].split("-")[1] == version
        and fits(each["filename"])
    ]
    if not found:
        raise SystemExit(f"{name}=={version}: no wheel for this kind of machine")
    return found


def builds(folder: Path, name: str, version: str) -> list[str]:
    """Rows of the wheels of ``version+anything`` in a folder, each for its own Python."""
    rows: list[str] = []
    for file in sorted(folder.glob(f"{name.replace('-', '_')}-{version}+*.whl")):
        _, build, _, tags = parse_wheel_filename(file.name)
        for python in PYTHONS:
            if any(tag.interpreter == f"cp{python.replace('.', '')}" for tag in tags):
                digest = hashlib.sha256(file.read_bytes()).hexdigest()
                rows.append(row(f'{name}=={build} ; python_version == "{python}"', [digest]))
    return rows


def row(requirement: str, digests: list[str]) -> str:
    return f"{requirement} {' '.join(f'--hash=sha256:{each}' for each in sorted(digests))}\n"


if __name__ == "__main__":
    main()
