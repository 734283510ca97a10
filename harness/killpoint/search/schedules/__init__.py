"""Which schedules to try: a file for each way, behind one seam, ``seams.Search``."""
