"""Searches: the runs of a case, sweeps of places, sizes around a boundary, schedules, shrinking."""
