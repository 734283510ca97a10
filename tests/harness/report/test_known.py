"""Known failures: what the file may say, and which violations it means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from killpoint.errors import BadUsage
from killpoint.report.known import Known, load
from killpoint.signature import signature

_CAUSE = "reader-0 still waited in receive after 4.0 s in recv (…/shm_broadcast.py:1016): it waits"
_WHOLE = """\
# of the nightly gate

[[known]]
case = "Q6/writer-dies-after-overflow-marker"
kind = "hang"
cause = "it waits"
target = "vllm"
releases = ">=0.20,<0.34"
replay = "story.toml"
note = "fixed upstream"

[[known]]
case = "Q3/overwritten-after-enqueue-remote"
kind = "wrong-data"
target = "vllm"
signature = "Q3/overwritten-after-enqueue-remote:wrong-data:0123456789"
strict = false
"""


def _file(folder: Path, text: str) -> Path:
    (folder / "story.toml").touch()
    file = folder / "known.toml"
    file.write_text(text)
    return file


def _known(**more: Any) -> Known:
    return Known(**({"case": "Q6/x", "kind": "hang", "target": "vllm"} | more))


def test_a_file_is_read_entry_by_entry(tmp_path: Path) -> None:
    first, second = load(_file(tmp_path, _WHOLE))
    assert (first.kind, first.releases, first.strict) == ("hang", ">=0.20,<0.34", True)
    assert (second.cause, second.strict) == ("", False)


@pytest.mark.parametrize(
    ("was", "becomes", "line", "words"),
    [
        ('kind = "hang"\n', "", 3, ["entry 1", "missing required key `kind`", "expected all of"]),
        ('"hang"', '"hangs"', 5, ["unknown kind 'hangs'", "expected one of: wrong-data"]),
        ("note =", "notes =", 10, ["unknown key 'notes'", "expected one of: case"]),
        ("strict = false", "strict = 0", 17, ["entry 2", "`strict` is 0", "true or false"]),
        ('"Q6/writer', '"Q66/writer', 4, ["'Q66/writer", "no case", "list cases"]),
        ('"it waits"', '"/it (waits/"', 6, ["/it (waits/", "regular expression"]),
        ('">=0.20,<0.34"', '"0.20 to 0.34"', 8, ["0.20 to 0.34", "expected as '>=0.20,<0.34'"]),
        ("story.toml", "tale.toml", 9, ["tale.toml does not exist"]),
        ('cause = "it waits"\n', "", 3, ["entry 1", "expected either words of its `cause`"]),
        ("note = ", 'signature = "Q6:hang:1"\nnote = ', 6, ["both `cause` and `signature`"]),
        ('target = "vllm"\nsig', "target = 33\nsig", 15, ["entry 2", "`target` is 33", "text"]),
        ("[[known]]", "[[knwon]]", 3, ["unknown key 'knwon'", "[[known]]"]),
    ],
)
def test_a_wrong_file_is_told_with_line_entry_and_what_was_expected(
    tmp_path: Path, was: str, becomes: str, line: int, words: list[str]
) -> None:
    file = _file(tmp_path, _WHOLE.replace(was, becomes, 1))
    with pytest.raises(BadUsage) as told:
        load(file)
    assert str(told.value).startswith(f"{file}:{line}: ")
    assert [word for word in words if word not in str(told.value)] == []


@pytest.mark.parametrize(
    "text", ["known = 3", "known = [3]", "[known]", "known = [{}]", "[[known]\n", "a = 1"]
)
def test_what_holds_no_entries_is_bad_usage(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadUsage, match="expected"):
        load(_file(tmp_path, text))


def test_the_last_entry_may_be_removed(tmp_path: Path) -> None:
    assert load(_file(tmp_path, "# none is known\n")) == []


def test_a_file_that_is_not_there_is_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(BadUsage, match="expected a file of known failures"):
        load(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("cause", "meant"),
    [
        ("it waits", True),
        (_CAUSE, True),
        (
            _CAUSE.replace("4.0 s", "9 s").replace(":1016", ":7").replace("reader-0", "reader-1"),
            True,
        ),
        ("/waited in (receive|recv)/", True),
        ("recv (", True),
        ("/^it waits/", False),
        ("it runs", False),
    ],
)
def test_a_cause_is_words_whatever_their_numbers_or_an_expression(cause: str, meant: bool) -> None:
    assert _known(cause=cause).describes("Q6/x", "hang", _CAUSE) is meant


def test_words_after_a_number_are_words_too() -> None:
    assert _known(cause="messages sent").describes("Q6/x", "hang", "3 messages sent never came")


def test_another_case_or_kind_is_another_failure() -> None:
    known = _known(cause="it waits")
    assert not known.describes("Q6/y", "hang", _CAUSE)
    assert not known.describes("Q6/x", "late", _CAUSE)


def test_a_signature_is_that_of_the_violation() -> None:
    known = _known(signature=signature("Q6/x", "hang", _CAUSE))
    assert known.describes("Q6/x", "hang", _CAUSE.replace("4.0", "5.5"))
    assert not known.describes("Q6/x", "hang", _CAUSE.replace("recv", "send"))


@pytest.mark.parametrize(
    ("releases", "version", "meant"),
    [
        ("", "0.33.0", True),
        ("", "a tree", True),
        (">=0.20,<0.34", "0.33.0", True),
        (">=0.20,<0.34", "0.33.1.dev4+g12ab", True),
        (">=0.20,<0.34", "0.34.0", False),
        (">=0.20,<0.34", "a tree", False),
    ],
)
def test_an_entry_is_of_its_releases(releases: str, version: str, meant: bool) -> None:
    assert _known(cause="x", releases=releases).is_of("vllm", version) is meant
    assert not _known(cause="x", releases=releases).is_of("sglang", version)


def test_an_entry_may_name_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "known.toml"
    file.write_text('[[known]]\nfinding = "deaf-reader"\ntarget = "vllm"\nnote = "see 12"\n')
    (entry,) = load(file)
    assert (entry.name, entry.words()) == ("deaf-reader", "deaf-reader of vllm: see 12")
    assert not entry.describes("", "", "")


@pytest.mark.parametrize(
    ("lines", "at", "words"),
    [
        (('finding = "deaf-raeder"', 'target = "vllm"'), 2, ["deaf-raeder", "deaf-reader"]),
        (('finding = "deaf-reader"', 'target = "own"'), 2, ["own has no finding"]),
        (('finding = "deaf-reader"',), 1, ["missing required key `target`", "finding, target"]),
        (
            ('target = "vllm"', 'finding = "deaf-reader"', 'case = "Q6/x"'),
            4,
            ["`case` beside `finding`"],
        ),
    ],
)
def test_a_wrong_finding_is_told_with_its_line(
    tmp_path: Path, lines: tuple[str, ...], at: int, words: list[str]
) -> None:
    file = tmp_path / "known.toml"
    file.write_text("\n".join(["[[known]]", *lines, ""]))
    with pytest.raises(BadUsage) as refused:
        load(file)
    for word in (f"known.toml:{at}:", *words):
        assert word in str(refused.value)
