"""The systems that are put on trial, one folder each (:mod:`killpoint.systems.registry`)."""
