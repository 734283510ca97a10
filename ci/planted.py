"""Scores the planted bugs into docs/planted.json, and writes docs/detection.md.

python ci/planted.py [BUG…] [--by {check,tests}] [--seed 0]

Only the named bugs are scored anew; what is known of the others stays. Without --by the page alone
is written.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / part) for part in ("tests/mutants", "impl", "harness")]
    from detection.command import known
    from detection.planted_score import main
    from detection.table import write_page

    status = main(ROOT)
    write_page(ROOT / "docs" / "detection.md", list(known()))
    sys.exit(status)
