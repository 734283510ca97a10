import pytest

from refengine.pipe.errors import MetadataRefused
from refengine.pipe.protocol import (
    BESIDE_MOST,
    DTYPE_CODES,
    HEADER_BYTES,
    ITEM_BYTES,
    LABEL_BYTES,
    MAX_DIMS,
    TEXT_MOST,
    Header,
    Kind,
    Metadata,
    Way,
    sealed,
)

KEY = b"k" * 32
U8 = DTYPE_CODES["uint8"]


def read(raw: bytes, number: int = 7, most: int = 1 << 20) -> Header:
    return Header.unpack(raw, KEY, number, most)


@pytest.mark.parametrize("dtype", list(DTYPE_CODES))
def test_a_header_says_of_each_type_what_it_was_told(dtype: str):
    told = Metadata(dtype, (3, 0, 2)), Metadata(dtype, (5,)), Metadata(dtype, ())
    for metadata in told:
        header = Header(Kind.TENSOR, 7, metadata, follows=metadata.nbytes)
        got = read(header.pack(KEY))
        assert got.metadata == metadata
        assert got.follows == metadata.nbytes
    assert told[1].nbytes == 5 * ITEM_BYTES[dtype]
    assert told[2].nbytes == ITEM_BYTES[dtype]


def test_codes_and_sizes_are_what_torch_says():
    torch = pytest.importorskip("torch")
    for name, nbytes in ITEM_BYTES.items():
        if hasattr(torch, name):
            assert getattr(torch, name).itemsize == nbytes, name
    assert sorted(DTYPE_CODES.values()) == list(range(1, len(DTYPE_CODES) + 1))


def test_fourteen_dimensions_and_a_label_arrive():
    shape = tuple(range(1, 3)) * 7
    header = Header(Kind.TENSOR, 7, Metadata("uint8", shape), follows=128, label=b"L" * LABEL_BYTES)
    raw = header.pack(KEY)
    assert len(raw) == HEADER_BYTES
    assert read(raw) == header


@pytest.mark.parametrize("kind", [Kind.NOTHING, Kind.BYE])
def test_what_has_no_bytes_has_no_metadata(kind: Kind):
    got = read(Header(kind, 7, label=b"x").pack(KEY))
    assert (got.kind, got.number, got.metadata, got.follows) == (kind, 7, None, 0)
    assert got.label == b"x".ljust(LABEL_BYTES, b"\0")


def test_each_damaged_byte_is_noticed():
    raw = bytearray(Header(Kind.TENSOR, 7, Metadata("uint8", (4,)), follows=4).pack(KEY))
    for at in range(len(raw)):
        raw[at] ^= 1
        with pytest.raises(MetadataRefused, match="seal"):
            read(bytes(raw))
        raw[at] ^= 1
    assert read(bytes(raw)).follows == 4


def test_anothers_seal_is_none():
    with pytest.raises(MetadataRefused, match="seal"):
        read(Header(Kind.NOTHING, 7).pack(b"x" * 32))


@pytest.mark.parametrize("number", [6, 8])
def test_a_repeated_or_early_header_is_refused(number: int):
    with pytest.raises(MetadataRefused, match=f"transfer {number} was due, this is 7"):
        read(Header(Kind.NOTHING, 7).pack(KEY), number)


TENSOR = int(Kind.TENSOR)
LIES = {
    "no such kind": ((9, 0, U8, 1, 7, 4, 4), (4,)),
    "no such way": ((TENSOR, 9, U8, 1, 7, 4, 4), (4,)),
    "there is no type 0": ((TENSOR, 0, 0, 1, 7, 4, 4), (4,)),
    "there is no type 255": ((TENSOR, 0, 255, 1, 7, 4, 4), (4,)),
    "15 dimensions": ((TENSOR, 0, U8, 15, 7, 1, 1), (1,) * MAX_DIMS),
    "the shape": ((TENSOR, 0, U8, 2, 7, 4, 4), (2, -2)),
    "the shape [-1, 0": ((TENSOR, 0, U8, 1, 7, 1, 1), (-1,)),
    "the shape [4, 4": ((TENSOR, 0, U8, 1, 7, 4, 4), (4, 4)),
    "more elements": ((TENSOR, 0, U8, 3, 7, 0, 0), (1 << 32, 1 << 32, 0)),
    "5 bytes for": ((TENSOR, 0, U8, 1, 7, 5, 5), (4,)),
    "1048577 bytes, of at most": (
        (TENSOR, 0, U8, 1, 7, (1 << 20) + 1, (1 << 20) + 1),
        ((1 << 20) + 1,),
    ),
    "3 bytes after a TENSOR of 4": ((TENSOR, 0, U8, 1, 7, 4, 3), (4,)),
    "4097 bytes after a TENSOR": ((TENSOR, 2, U8, 1, 7, 4, BESIDE_MOST + 1), (4,)),
    "1 bytes after a NOTHING": ((int(Kind.NOTHING), 0, 0, 0, 7, 0, 1), ()),
    "1 bytes after a BYE": ((int(Kind.BYE), 0, 0, 0, 7, 0, 1), ()),
    "1025 bytes after a FAILED": ((int(Kind.FAILED), 0, 0, 0, 7, 0, TEXT_MOST + 1), ()),
    "NOTHING with a type": ((int(Kind.NOTHING), 0, U8, 0, 7, 0, 0), ()),
    "BYE with a type, a shape": ((int(Kind.BYE), 0, 0, 1, 7, 0, 0), ()),
    "FAILED with a type, a shape or bytes": ((int(Kind.FAILED), 0, 0, 0, 7, 1, 0), ()),
}


@pytest.mark.parametrize("why", LIES)
def test_a_sealed_lie_is_refused_and_says_why(why: str):
    what, sizes = LIES[why]
    with pytest.raises(MetadataRefused) as caught:
        read(sealed(KEY, what, sizes, b""))
    assert ("is not a valid" if why.startswith("no such") else why) in str(caught.value)


def test_limits_themselves_are_allowed():
    for what, sizes in (
        ((TENSOR, 0, U8, 1, 7, 1 << 20, 1 << 20), (1 << 20,)),
        ((TENSOR, 2, U8, 1, 7, 4, BESIDE_MOST), (4,)),
        ((int(Kind.FAILED), 0, 0, 0, 7, 0, TEXT_MOST), ()),
        ((TENSOR, int(Way.NCCL), U8, 1, 7, 4, 0), (4,)),
        ((TENSOR, 0, U8, 2, 7, 0, 0), ((1 << 63) - 1, 0)),
    ):
        read(sealed(KEY, what, sizes, b""))
