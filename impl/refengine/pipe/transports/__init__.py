"""The ways that payloads can go, a file each, behind one seam."""
