"""Writes docs/detection.md: which hand-made mutant each method finds, and how fast.

python ci/detection.py [MUTANT…] [--methods case,random,sweep,simulation] [--seconds 20]
                       [--limit 30]

Only the named mutants and methods are tried anew; what is known of the others stays.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / part) for part in ("tests/mutants", "impl", "harness")]
    from detection.command import main

    sys.exit(main(ROOT))
