"""The types of elements that a header can name, by number; known without torch."""

_KNOWN: tuple[tuple[str, int], ...] = (
    ("uint8", 1),
    ("int8", 1),
    ("int16", 2),
    ("int32", 4),
    ("int64", 8),
    ("float16", 2),
    ("float32", 4),
    ("float64", 8),
    ("complex32", 4),
    ("complex64", 8),
    ("complex128", 16),
    ("bool", 1),
    ("bfloat16", 2),
    ("float8_e5m2", 1),
    ("float8_e4m3fn", 1),
    ("float8_e5m2fnuz", 1),
    ("float8_e4m3fnuz", 1),
    ("float8_e8m0fnu", 1),
    ("uint16", 2),
    ("uint32", 4),
    ("uint64", 8),
    ("float4_e2m1fn_x2", 1),
)
ITEM_BYTES: dict[str, int] = dict(_KNOWN)
"""Bytes of an element, by the type's name in torch."""
CODES = {name: code for code, (name, _) in enumerate(_KNOWN, 1)}
NAMES = {code: name for name, code in CODES.items()}
