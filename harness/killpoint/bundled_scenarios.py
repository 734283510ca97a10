"""The scenario files that ship: in the installed package, or in the checkout beside it."""

from __future__ import annotations

from pathlib import Path


def scenario_folder() -> Path:
    """Return the folder of the shipped scenarios; it may not exist in a partial checkout."""
    home = Path(__file__).parent
    packaged = home / "scenarios"
    return packaged if packaged.is_dir() else home.parents[1] / "scenarios"


def scenario_files() -> list[Path]:
    """Return every shipped scenario, by chapter and name."""
    return sorted(scenario_folder().glob("*/*.toml"))
