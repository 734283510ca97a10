"""Tests of the reference implementation; the files mirror `impl/refengine`."""
