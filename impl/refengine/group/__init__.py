"""Process groups (SPEC 4): `Group` over authenticated connections, `StoreGroup` over a store."""

from .group import Group, new_key
from .store_group import StoreGroup

__all__ = ["Group", "StoreGroup", "new_key"]
