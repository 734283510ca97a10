"""The simulated stage: the target's own code in one process, under a controlled scheduler."""
