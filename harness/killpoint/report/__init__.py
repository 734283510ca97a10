"""Rendering of a judgement: the card in a terminal, and the files that scripts read."""
