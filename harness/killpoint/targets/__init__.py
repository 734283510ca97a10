"""Implementations under test, each behind an adapter that says what it lets us do."""
