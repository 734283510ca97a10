"""Progress for a person who waits: a live display at a terminal, a few lines elsewhere."""
