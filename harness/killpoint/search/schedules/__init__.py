"""Searches over schedules: a file for each way, behind one seam, ``seams.Search``."""
