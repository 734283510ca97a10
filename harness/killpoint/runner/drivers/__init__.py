"""Drivers of systems: the steps that a role executes when it is ordered to."""
