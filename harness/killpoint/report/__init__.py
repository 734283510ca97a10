"""What a judgement looks like: the card in a terminal, and the files scripts read."""
