"""What goes over the wire, byte for byte: a party of another release reads it, too."""

import pytest

from refengine.base.security import Keys
from refengine.pipe import handshake, link, protocol
from refengine.pipe.errors import MetadataRefused
from refengine.pipe.protocol import ITEM_BYTES, BlockLabel, BlockMessage, Header, Kind, Way

KEY = b"k" * 32
KEYS = Keys.from_secret(KEY)


def test_messages_are_of_the_sizes_that_their_version_has():
    assert (handshake.HELLO_BYTES, handshake.WELCOME_BYTES) == (116, 132)
    assert (handshake.PROOF_BYTES, handshake.VERDICT_BYTES) == (32, 256)
    assert (protocol.HEADER_BYTES, protocol.LABEL_BYTES, protocol.MAX_DIMS) == (240, 80, 14)
    assert (protocol.TEXT_MOST, protocol.BESIDE_MOST) == (1024, 4096)
    assert (link.REPLY_BYTES, link.LOCATION_BYTES) == (256, 64)
    assert handshake.CONTROL == 0xFFFFFFFF
    location = link.Location(bytes(16), bytes(16), "auto")
    assert len(link.pack_reply(link.Reply.BYE)) == 256
    hello = handshake.ClientHandshake(KEYS, handshake.ClientInfo(1, 2, 0, 7, location)).hello
    welcome = handshake.ServerHandshake(KEYS, 8, location).welcome(hello)
    assert (len(hello), len(welcome or b""), len(handshake.pack_verdict())) == (116, 132, 256)


def test_words_have_the_numbers_that_their_version_has():
    assert [each.value for each in BlockMessage] == [1, 2, 3, 4]
    assert [each.value for each in Kind] == [1, 2, 3, 4]
    assert [each.value for each in Way] == [0, 1, 2]
    assert [link.pack_reply(each)[0] for each in link.Reply] == [1, 2, 3]
    assert [BlockLabel(each, b"t" * 16).pack()[4] for each in BlockMessage] == [1, 2, 3, 4]


def test_a_type_has_the_bytes_that_its_name_says():
    for name, nbytes in ITEM_BYTES.items():
        digits = name.partition("_")[0].lstrip("abcdefghijklmnopqrstuvwxyz")
        assert nbytes == max(1, int(digits or 8) // 8), name


def test_what_is_left_out_of_a_label_is_zeros():
    label = BlockLabel(BlockMessage.READY, b"t" * 16)
    assert label.request == bytes(16)
    assert (label.index, label.count, label.lease, label.checksum) == (0, 0, 0.0, 0)


def test_a_header_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patched:
        patched.setattr(protocol, "_MAGIC", b"RKP2")
        raw = Header(Kind.NOTHING, 7).pack(KEY)
    with pytest.raises(MetadataRefused, match="of another version"):
        Header.unpack(raw, KEY, 7, 100)


def test_elements_are_counted_as_far_as_they_can_be():
    told = (int(Kind.TENSOR), 0, 1, 2, 7, 0, 0), ((1 << 62), 2)
    with pytest.raises(MetadataRefused, match="more elements than can be counted"):
        Header.unpack(protocol.sealed(KEY, *told, b""), KEY, 7, 1 << 80)
