"""What the digests of a target tell apart."""

from __future__ import annotations

from pathlib import Path

from killpoint.report.same_code import judge_digest, target_digest


def test_the_same_files_are_the_same_code_wherever_they_lie(tmp_path: Path) -> None:
    one, other = (_file(tmp_path / name, "x = 1") for name in "ab")
    assert target_digest("own:a", {"q.py": one}) == target_digest("own:a", {"q.py": other})


def test_another_text_name_or_edit_at_load_is_another_code(tmp_path: Path) -> None:
    one, other = _file(tmp_path / "a", "x = 1"), _file(tmp_path / "b", "x = 2")
    told = [
        target_digest("vllm==1", {"q.py": one}),
        target_digest("vllm==1", {"q.py": other}),
        target_digest("vllm==1", {"r.py": one}),
        target_digest("vllm==1~late-replies", {"q.py": one}),
    ]
    assert len({*told}) == len(told)


def test_files_that_are_not_known_or_gone_are_no_code(tmp_path: Path) -> None:
    assert target_digest("own:a", {}) == target_digest("own:a", {"q.py": str(tmp_path / "q")}) == ""


def test_one_judge_is_one() -> None:
    assert judge_digest() == judge_digest()


def _file(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)
