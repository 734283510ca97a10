"""Text to tokens and back."""

from refengine.engine.model.tokens import END, TextStream, encode


def test_a_text_is_its_bytes():
    assert encode("aé") == [97, 0xC3, 0xA9]
    assert END == 256


def test_a_character_comes_when_it_is_whole():
    stream = TextStream()
    assert [stream.push([token]) for token in encode("aé€")] == ["a", "", "é", "", "", "€"]
    assert stream.finish() == ""


def test_what_is_no_text_is_replaced():
    stream = TextStream()
    assert stream.push([97, 0xFF, 98]) == "a\ufffdb"
    assert stream.push([0xC3]) == ""
    assert stream.finish() == "\ufffd"
    assert TextStream().push([97, END, 98]) == "ab"
    assert TextStream().push([255]) == "\ufffd"
