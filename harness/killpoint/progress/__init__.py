"""What a person who waits is shown: a live display at a terminal, a few lines elsewhere."""
