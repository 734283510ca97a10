"""killpoint: conformance and fault injection for the process fabric of inference engines."""

__version__ = "0.1.0"
