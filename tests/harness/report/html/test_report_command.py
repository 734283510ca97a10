from pathlib import Path

import pytest
from stored_runs import keep_run, stored, violating_run

from killpoint.cli import main


def test_one_run_is_reported_into_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    violating_run(tmp_path / "run")
    assert main(["report", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run/report.html").is_file()
    assert f"{tmp_path}/run/report.html: 0.0" in capsys.readouterr().out
    assert [file.name for file in (tmp_path / "run").iterdir() if file.suffix == ".html"] == [
        "report.html"
    ]


def test_several_runs_are_merged_into_one_file_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for version in ("0.9", "0.33"):
        keep_run(stored("vllm", version, {"R6": "holds"}), tmp_path / version)
    assert main(["report", "0.33", "0.9"]) == 0
    text = Path("report.html").read_text("utf-8")
    assert text.index("vllm 0.9") < text.index("vllm 0.33")


@pytest.mark.parametrize("out", ["absent/report.html", "."])
def test_a_place_where_no_file_can_be_is_refused_in_a_line(
    out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = violating_run(tmp_path / "run")
    assert main(["report", str(run.folder), "--out", str(tmp_path / out)]) == 2
    assert "is no place for a file" in capsys.readouterr().err


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "expected the folder of a run" in capsys.readouterr().err
