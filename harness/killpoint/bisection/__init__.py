"""Bisection: which release, or which commit, changed how a case comes out."""
