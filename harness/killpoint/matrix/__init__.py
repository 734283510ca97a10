"""The matrix: every invariant on many targets, played one target after the other."""
