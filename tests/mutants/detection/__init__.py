"""Which hand-made mutant is found by which method, and how fast."""
