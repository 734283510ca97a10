"""The conformance suite that ships: ``pytest --pyargs killpoint.conformance --target …``."""
