"""The plays of a server: those with names, the grid of --full, and the announcement of a check."""
