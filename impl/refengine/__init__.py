"""The reference implementation of the process fabric (docs/spec.md)."""
