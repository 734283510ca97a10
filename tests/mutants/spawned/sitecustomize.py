"""What interpreters import first that a mutant starts anew: they are to be broken, too."""

import os
import sys
from pathlib import Path

if "REFENGINE_MUTANT" in os.environ:
    sys.path.append(str(Path(__file__).parents[1]))
    import mutated

    mutated.break_here(os.environ["REFENGINE_MUTANT"])
