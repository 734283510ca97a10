from pathlib import Path

from stored_runs import stored

from killpoint.report.table import columns, rows


def test_the_newest_version_of_a_target_stands_last() -> None:
    runs = [stored("vllm", v, {}) for v in ("0.33.0", "tree", "0.9.2", "0.12.0")]
    runs.insert(1, stored("refengine", "0.1", {}))
    found = [column.label for column in columns(runs)]
    assert found == ["vllm 0.9.2", "vllm 0.12.0", "vllm 0.33.0", "vllm tree", "refengine 0.1"]


def test_a_column_of_sglang_says_that_it_is_a_copy_of_a_queue() -> None:
    (column,) = columns([stored("sglang", "0.5.23", {})])
    assert column.label == "sglang 0.5.23 (its copy of vLLM 0.6.4's queue)"


def test_the_same_target_twice_is_told_apart_by_seed_then_date_then_number() -> None:
    early, late = Path("runs/20260102-030405-t-1"), Path("runs/20260102-040404-t-1")
    seeds = columns([stored("t", "1", {}, seed=n) for n in (3, 4)])
    assert [column.label for column in seeds] == ["t 1, seed 3", "t 1, seed 4"]
    dates = columns([stored("t", "1", {}, folder=each) for each in (late, early)])
    assert [column.label[-19:] for column in dates] == [
        "2026-01-02 03:04:05",
        "2026-01-02 04:04:04",
    ]
    same = columns([stored("t", "1", {}, folder=early)] * 2)
    assert [column.label for column in same] == ["t 1, #1", "t 1, #2"]


def test_rows_are_those_of_all_runs_with_must_before_should_in_the_catalogues_order() -> None:
    one, two = stored("a", "1", {"W1": "holds", "R1": "holds"}), stored("b", "1", {"Q9": "holds"})
    one.invariants["R1"].level = "SHOULD"
    two.invariants["Z9"] = one.invariants["W1"]
    assert [(row.id, row.level) for row in rows([one, two])] == [
        ("Q9", "MUST"),
        ("W1", "MUST"),
        ("Z9", "MUST"),
        ("R1", "SHOULD"),
    ]
    assert rows([one])[0].clause.startswith("A pool is starting")
