from stored_runs import stored

from killpoint.report.matrix_table import markdown


def test_the_table_has_a_row_an_invariant_and_a_column_a_target() -> None:
    old = stored("vllm", "0.9", {"R6": "violated", "R7": "unsupported"})
    new = stored("vllm", "0.33", {"R6": "holds", "R7": "inconclusive", "Q1": "holds"})
    assert markdown([new, old], None).splitlines() == [
        "|  |  | vllm 0.9 | vllm 0.33 |",
        "| --- | --- | :-: | :-: |",
        "| R6 | MUST | ✗ | ✓ |",
        "| R7 | MUST | \N{EN DASH} | ? |",
        "| Q1 | MUST |   | ✓ |",
        "",
        "✓ holds, ✗ violated, ? inconclusive, \N{EN DASH} unsupported, blank: not asked.",
    ]


def test_a_cell_leads_where_the_link_says() -> None:
    run = stored("t", "1", {"R6": "violated", "R7": "holds"})
    text = markdown([run], lambda run, id: f"r.html#{run.target.name}/{id}" if id == "R6" else "")
    assert "| R6 | MUST | [✗](r.html#t/R6) |" in text
    assert "| R7 | MUST | ✓ |" in text


def test_a_targets_name_is_no_markup() -> None:
    assert r"a\|b \<i\>1.0\[cpu\]" in markdown([stored("a|b", "<i>1.0[cpu]", {})], None)
