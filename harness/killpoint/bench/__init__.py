"""Measured comparisons. Nothing here judges: figures, their spread, and the machine they are of."""
