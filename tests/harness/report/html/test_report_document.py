"""The file: alone, safe, complete, and within its size."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from stored_runs import HOSTILE, dead_writer, keep_play, keep_run, stored, violating_run
from synthetic import scene

from killpoint.report.html.cells import run_cells
from killpoint.report.html.document import beside, write
from killpoint.report.html.packing import unpack
from killpoint.report.html.selection import select
from killpoint.report.run_folder import StoredRun, read
from killpoint.report.table import columns
from killpoint.verdict import CaseViolation


class _Page(HTMLParser):
    """Elements, links, what is loaded, and the parts that the page carries."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.parts: dict[str, str] = {}
        self.said = ""
        self._inside = ""
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = dict(attrs).get("id") or tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = "" if tag in ("script", "style") else self._inside

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.said += data
        elif self._inside not in ("script", "style"):
            self.parts[self._inside] = self.parts.get(self._inside, "") + data

    def links(self) -> list[str]:
        return [of["href"] or "" for tag, of in self.tags if tag == "a"]

    def part(self, name: str) -> object:
        return msgspec.json.decode(unpack(self.parts[name]))

    def run(self, n: int) -> dict[str, object]:
        found = self.part(f"run-{n}")
        assert isinstance(found, dict)
        return found


def _page(run: StoredRun, out: Path, **how: int) -> _Page:
    return _Page(write([run], out / "r.html", **how).path)


@pytest.fixture
def run(tmp_path: Path) -> StoredRun:
    return violating_run(tmp_path / "20260102-030405-vllm-1")


def test_the_file_loads_nothing(run: StoredRun, tmp_path: Path) -> None:
    page = _page(run, tmp_path)
    loading = ("src", "srcset", "data", "action", "poster", "background")
    assert [of for _, of in page.tags if any(key in of for key in loading)] == []
    assert not {"link", "iframe", "object", "embed", "base", "img"} & {tag for tag, _ in page.tags}
    assert all(link.startswith("#") for link in page.links())
    text = (tmp_path / "r.html").read_text("utf-8")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|@import|\burl\((?!#)", text)
    assert "default-src 'none'" in text


def test_what_a_target_says_is_text_and_never_markup(run: StoredRun, tmp_path: Path) -> None:
    page = _page(run, tmp_path)
    text = (tmp_path / "r.html").read_text("utf-8")
    assert HOSTILE not in text
    assert "onerror" not in {key for _, of in page.tags for key in of}
    assert HOSTILE in page.said
    assert [tag for tag, _ in page.tags].count("script") == text.count("</script>")


def test_every_cell_of_the_front_page_has_its_page(run: StoredRun, tmp_path: Path) -> None:
    other = stored("refengine", "1", {"R6": "violated", "Q1": "inconclusive"})
    page = _Page(write([run, other], tmp_path / "m.html").path)
    runs = {run["slug"]: run["cells"] for run in (page.run(0), page.run(1))}
    cells = [link.split("/") for link in page.links() if link.startswith("#cell/")]
    assert len(cells) == 5 + 3, "five cells, and three cases in the list of what does not hold"
    for _, slug, id, *_ in cells:
        assert id in runs[slug]
    clauses = page.part("clauses")
    assert {id for _, _, id, *_ in cells} <= set(clauses)


def test_the_page_of_a_case_has_its_cause_replay_lines_play_and_log(
    run: StoredRun, tmp_path: Path
) -> None:
    page = _page(run, tmp_path)
    case = page.run(0)["cells"]["Q6"]["cases"][0]
    assert case["cause"].startswith("reader-0 still waited in receive")
    assert case["commands"][0]["line"] == "killpoint replay runs/x/replays/Q6-synthetic.toml"
    assert "--only Q6 --seed 0 --target vllm==9.9" in case["commands"][1]["line"]
    play = page.part(case["play"])
    assert play["events"][play["violation"]][3]["op"] == "receive"
    assert page.part(case["log"])[0]["text"] == HOSTILE
    assert case["cut"] == ""


def test_verdicts_are_told_in_signs_and_words(run: StoredRun, tmp_path: Path) -> None:
    said = " ".join(_page(run, tmp_path).said.split())
    for words in ("✓ 1 holds", "✗ 1 violated", "MUST hold", "R6 Nothing handed to a caller"):
        assert words in said


def _long(folder: Path) -> StoredRun:
    """A run with a long play of a violation, and six that held: the first wrote nothing."""
    run = violating_run(folder)
    for n in range(6):
        noise = "".join(chr(33 + hash((k, n)) % 90) for k in range(8000))
        keep_play(folder, f"R2-c{n}", dead_writer(30 + n), scene(judges="R2"), noise if n else "")
    keep_play(folder, "Q7-long", dead_writer(700), scene(judges="Q7", readers=2))
    run.invariants |= stored("t", "1", {"R2": "holds", "Q7": "violated"}).invariants
    run.invariants["Q7"].cases[0].id = "Q7/long"
    case = run.invariants["R2"].cases[0]
    run.invariants["R2"].cases = [msgspec.structs.replace(case, id=f"R2/c{n}") for n in range(6)]
    return keep_run(run, folder)


def test_what_goes_first_is_logs_of_what_held_then_its_plays_then_length_of_violations(
    tmp_path: Path,
) -> None:
    run = _long(tmp_path / "run")
    whole = _page(run, tmp_path)
    cells = whole.run(0)["cells"]
    everything = (tmp_path / "r.html").stat().st_size + 18_000  # what is known only at the end
    logs = sum(len(whole.parts[case["log"]]) for case in cells["R2"]["cases"] if case["log"])
    plays = sum(len(whole.parts[case["play"]]) for case in cells["R2"]["cases"])
    kept: list[tuple[int, int, int]] = []
    for less in (0, logs // 2, logs + plays // 2, logs + plays + 25_000):
        page = _page(run, tmp_path, budget=everything - less)
        assert (tmp_path / "r.html").stat().st_size <= everything - less
        cells = page.run(0)["cells"]
        held, (broken,) = cells["R2"]["cases"], cells["Q7"]["cases"]
        kept.append(
            (
                sum(bool(case["log"]) for case in held),
                sum(bool(case["play"]) for case in held),
                len(page.part(broken["play"])["events"]),
            )
        )
        for case in held:
            lost = not case["play"] or (case["id"] != "R2/c0" and not case["log"])
            assert (case["folder"] in case["cut"]) == lost
        assert ("To stay under" in page.said) == bool(less)
    shown = len(whole.part(whole.run(0)["cells"]["Q7"]["cases"][0]["play"])["events"])
    assert kept[0] == (5, 6, shown)
    assert 0 < kept[1][0] < 5
    assert kept[1][1:] == (6, shown)
    assert kept[2][0] == 0
    assert 0 < kept[2][1] < 6
    assert kept[2][2] == shown
    assert 60 <= kept[3][2] < shown


def test_where_nothing_was_written_no_log_is_missed(run: StoredRun) -> None:
    (run.folder / "plays/R6-synthetic/writer.err").write_text("")
    every = run_cells(columns([run]))[0].cases()
    held = [case for case in every if case.id == "R6/synthetic"]
    full = len(select(held, 1_000_000, "").parts[held[0].play])
    fits = next(n for n in range(full, full + 999) if select(held, n, "").parts)
    held[0].cut = ""
    assert select(held, fits, "").cuts == []
    assert held[0].cut == ""


def test_a_record_that_cannot_be_drawn_costs_only_itself(run: StoredRun, tmp_path: Path) -> None:
    (run.folder / "plays/R6-synthetic/odd.jsonl").write_text(
        '{"t":1,"role":"x","kind":"call-done","data":{"replies":[7]}}\n'
    )
    case = _page(run, tmp_path).run(0)["cells"]["R6"]["cases"][0]
    assert (case["play"], "cannot be drawn" in case["cut"]) == ("", True)


def test_a_check_waits_for_no_more_plays_than_its_patience(run: StoredRun) -> None:
    written = write([run], run.folder / "report.html", patience=0.0)
    assert written.cuts == ["The check did not wait for 2 plays. `killpoint report RUN` waits."]
    assert beside(read(run.folder)).cuts == []


def test_the_front_page_begins_with_the_findings_those_that_bite_first(
    run: StoredRun, tmp_path: Path
) -> None:
    write([run], tmp_path / "r.html")
    assert "Findings" not in _Page(tmp_path / "r.html").said
    case = run.invariants["Q6"].cases[0]
    for whose in ("deaf-writer", "deaf-reader"):
        case.violations.append(CaseViolation("hang", HOSTILE, finding=whose, how="switched off"))
    write([run], tmp_path / "r.html")
    page = _Page(tmp_path / "r.html")
    places = [
        page.said.index(words)
        for words in (
            "Findings",
            "bites",
            "deaf-reader",
            "placed",
            "deaf-writer",
            "What is violated",
        )
    ]
    assert places == sorted(places)
    links = [attrs.get("href") or "" for tag, attrs in page.tags if tag == "a"]
    assert f"#cell/vllm-9.9/{case.id}" in links
