"""The cases of the reference that ``pytest`` alone leaves to ``ci/check.sh``."""

from pathlib import Path

LEFT_TO_CHECK = frozenset(
    line
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
)
"""Their ids: each takes long, and its invariant has another that is played in every run."""
