"""Observations from outside of a process: stacks, memory, descriptors, exposure to others."""
