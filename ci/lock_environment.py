#!/usr/bin/env python3
"""Writes a lock file of an environment that an engine is judged in.

uv lock && ci/lock_environment.py [--torch VERSION] [--only NAME | --without NAME] [--beside LOCK]
    OUT uv.lock…

``uv lock`` resolves a pyproject.toml for the Pythons below; of its answer, the wheels for this
kind of machine are kept, with their hashes and sizes, and without any address.
docs/environments.md has the pyproject.toml.
"""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from packaging.markers import Marker

PYTHONS = ("3.11", "3.12", "3.13")
MACHINE = "x86_64"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", default="", help="the build that is asked for beside the rest")
    parser.add_argument("--only", default="", help="this package alone, of every lock")
    parser.add_argument("--without", default="", help="all but this package")
    parser.add_argument(
        "--beside", type=Path, help="not what this lock file has, of the same release"
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("locks", type=Path, nargs="+")
    options = parser.parse_args()
    locked = [each for lock in options.locks for each in tomllib.loads(lock.read_text())["package"]]
    beside = json.loads(options.beside.read_text())["packages"] if options.beside else []
    there = {(each["name"], each["version"]) for each in beside}
    found = [
        row(each)
        for each in locked
        if "registry" in each["source"]
        and (each["name"], each["version"]) not in there
        and options.only in ("", each["name"])
        and options.without != each["name"]
    ]
    head: dict[str, Any] = {"torch": options.torch, "pythons": PYTHONS}
    lines = ",\n".join(json.dumps(each) for each in found)
    options.out.write_text(f'{json.dumps(head)[:-1]}, "packages": [\n{lines}\n]}}\n')


def row(package: dict[str, Any]) -> dict[str, Any]:
    pythons = [python for python in PYTHONS if belongs(package, python)]
    wheels = sorted(
        (unquote(each["url"].rsplit("/", 1)[1]), each["size"], each["hash"].partition(":")[2])
        for each in package.get("wheels", [])
    )
    fitting = [
        {"file": file, "bytes": size, "sha256": digest}
        for file, size, digest in wheels
        if fits(file)
    ]
    if not fitting:
        raise SystemExit(f"{package['name']}=={package['version']} has no wheel for {MACHINE}")
    made = {"name": package["name"], "version": package["version"], "wheels": fitting}
    return made if len(pythons) == len(PYTHONS) else made | {"pythons": pythons}


def belongs(package: dict[str, Any], python: str) -> bool:
    machine = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "platform_machine": MACHINE,
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
        "extra": "",
    }
    markers = package.get("resolution-markers", [])
    return not markers or any(Marker(marker).evaluate(machine) for marker in markers)


def fits(file: str) -> bool:
    """Whether a wheel is for one of the Pythons and for glibc on this kind of machine."""
    pythons, abis, platforms = file.removesuffix(".whl").split("-")[-3:]
    if platforms != "any" and not any(
        each.startswith(("manylinux", "linux")) and each.endswith(MACHINE)
        for each in platforms.split(".")
    ):
        return False
    ours = {f"cp{python.replace('.', '')}" for python in PYTHONS}
    if abis == "none":
        return any(each in ours or re.fullmatch(r"py3\d*", each) for each in pythons.split("."))
    if abis == "abi3":
        return any(int(each[3:]) <= 13 for each in pythons.split(".") if each.startswith("cp3"))
    return abis in ours


if __name__ == "__main__":
    main()
