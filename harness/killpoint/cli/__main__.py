"""``python -m killpoint.cli``."""

import sys

from killpoint.cli import main

sys.exit(main())
