"""Process groups (SPEC 4): `Group` over authenticated lines, `StoreGroup` over a store."""

from .group import Group, new_key

__all__ = ["Group", "new_key"]
