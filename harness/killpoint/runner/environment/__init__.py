"""The environment of a role: its clock, its shared memory, its limits."""
