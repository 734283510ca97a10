"""History of a play: a crash-proof log per process, and the one ordered record made of them."""
