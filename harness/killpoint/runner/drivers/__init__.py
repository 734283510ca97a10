"""Drivers of systems: what a role does when it is told to do a step."""
