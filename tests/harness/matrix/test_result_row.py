import shutil
from pathlib import Path

import msgspec
import pytest
from stored_rows import ASKED, stored

from killpoint.cli import main
from killpoint.matrix.result_row import slug


def test_a_finished_row_is_kept_for_whoever_asks_the_same(tmp_path: Path):
    place, row = stored(tmp_path)
    assert place.kept(ASKED) == row
    assert place.run(row).target.version == "0.26.0"


@pytest.mark.parametrize(
    "other", [{"only": ("R6",)}, {"budget": 6.0}, {"seed": 1}, {"full": True}, {"shrink": 1.0}]
)
def test_a_row_that_was_asked_something_else_is_played_anew(
    tmp_path: Path, other: dict[str, object]
):
    place, _ = stored(tmp_path)
    assert place.kept(msgspec.structs.replace(ASKED, **other)) is None


def test_what_is_not_whole_is_no_finished_row(tmp_path: Path):
    place, row = stored(tmp_path)
    (place.folder / row.run / "verdict.json").unlink()
    assert place.kept(ASKED) is None
    (place.folder / "row.json").write_text("{")
    assert place.kept(ASKED) is None
    shutil.rmtree(place.folder)
    assert place.kept(ASKED) is None


def test_what_is_asked_is_what_check_understands(capsys: pytest.CaptureFixture[str]):
    asked = msgspec.structs.replace(ASKED, full=True, seed=3, only=("C1/no-such",))
    assert main(["check", *asked.words()]) == 2
    assert "no-such" in capsys.readouterr().err


def test_a_targets_name_is_a_folders():
    assert slug("vllm==0.33.0") == "vllm-0.33.0"
    assert slug("vllm@../tree") == "vllm-..-tree"
    assert "/" not in slug("own.module:Queue/..")
