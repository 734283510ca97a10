"""Executable specifications of the state machines."""
