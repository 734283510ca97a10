"""Mechanical mutants of the reference: each a small change that some test must notice."""
