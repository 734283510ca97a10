"""The reference as a target, and the one place that imports it.

Nothing is imported here: a pool's worker needs :mod:`.wrapped_worker` alone.
"""
