"""Observations from outside of a process: stacks, memory, descriptors, what others see."""
