"""What to try: plays of a case, sweeps of places, sizes around a boundary."""
