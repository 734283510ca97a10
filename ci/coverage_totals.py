"""Totals of a coverage.json: each package of impl/ and harness/, worst first; 1 if impl/ is below.

python ci/coverage_totals.py COVERAGE.JSON LEAST
"""

import json
import sys
from collections import Counter
from pathlib import Path, PurePath

TREES = {"impl": "refengine", "harness": "killpoint"}


def package(file: str, tree: str) -> str:
    """The package below a tree that a file belongs to: a folder, or the tree's own modules."""
    below = PurePath(file).parts
    below = below[below.index(TREES[tree]) + 1 :]
    return f"{tree}/{below[0]}" if len(below) > 1 else f"{tree}/*.py"


def share(counts: Counter[str], *kinds: str) -> float:
    """Percent covered of so many statements, branches, or both."""
    number = sum(counts[kind] for kind in kinds)
    return 100.0 * sum(counts[f"covered {kind}"] for kind in kinds) / number if number else 100.0


def row(name: str, counts: Counter[str]) -> str:
    both = share(counts, "lines", "branches")
    taken = f"{counts['covered branches']:5} of {counts['branches']:5} branches"
    return f"{name:28} {both:5.1f} %   {taken} ({share(counts, 'branches'):5.1f} %)"


def main(report: str, least: float) -> int:
    files = json.loads(Path(report).read_text("utf-8"))["files"]
    short = False
    for tree, home in TREES.items():
        packages: dict[str, Counter[str]] = {}
        for name, found in files.items():
            if home not in PurePath(name).parts or tree not in PurePath(name).parts:
                continue
            summary = found["summary"]
            counts = packages.setdefault(package(name, tree), Counter())
            counts["lines"] += summary["num_statements"]
            counts["covered lines"] += summary["covered_lines"]
            counts["branches"] += summary["num_branches"]
            counts["covered branches"] += summary["covered_branches"]
        whole = sum(packages.values(), Counter())
        worst = sorted(packages.items(), key=lambda item: share(item[1], "lines", "branches"))
        print(*(row(name, counts) for name, counts in worst), row(f"{tree}/", whole), sep="\n")
        print()
        if tree == "impl" and share(whole, "lines", "branches") < least:
            short = True
    if short:
        print(f"impl/ is below {least:g} %")
    return int(short)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
