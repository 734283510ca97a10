"""Implementations under test, each behind an adapter that declares its capabilities."""
