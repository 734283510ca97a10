"""Mechanical mutants of the reference: which small changes does no test notice?

    python ci/mutation.py [ring] [queue] [group] [FILE…] [--sample N] [--seconds S]

Sources are changed while they are imported, in forked children that run the tests which touch
the changed statement; nothing is written to the checkout.
"""

import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / part) for part in ("tests/mutants", "impl", "harness")]
    from mechanical.command import main

    # Ended politely, it ends its children, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main(ROOT))
