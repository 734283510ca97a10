"""The plays of a server: those with names, the grid of --full, what a check is about to play."""
