"""The reference implementation of the process fabric (SPEC.md)."""
