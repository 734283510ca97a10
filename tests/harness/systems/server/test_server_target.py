"""``serve:`` targets: what they can be asked, how a file tells of one, and what is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from reading import Reading

from killpoint.cases import CASES, SERVER_CASES, asked_of, select
from killpoint.errors import BadUsage
from killpoint.invariants import BY_ID, CATALOGUE
from killpoint.judgement.judge import judge, plan
from killpoint.scenario import Scenario, ServerShape, dump, parse
from killpoint.search.case_run import CaseRun
from killpoint.systems.server.player import ServerPlayer
from killpoint.systems.server.program import AskedDrain
from killpoint.systems.server.program_file import load_program
from killpoint.systems.server.steps import ServerStart, ServerStop
from killpoint.systems.server.target import HasServer
from killpoint.targets.disclaimer import disclaimed
from killpoint.targets.registry import build, is_server, resolve

START = '[[steps]]\ndo = "server-start"\n'
EXAMPLE = Path(__file__).parents[3] / "examples" / "plain_server.toml"


@pytest.mark.parametrize("case", SERVER_CASES, ids=lambda case: case.id)
def test_a_case_plays_a_scenario_that_is_a_file(case: object) -> None:
    found = next(each for each in SERVER_CASES if each is case)
    player = Reading()
    found.run(CaseRun(found.id, player, seed=0, full=False, folder=None))
    scenario, *again = player.played
    racing = found.id in ("E6/sigterm-in-a-long-step", "E4/worker-stopped")  # while it holds
    assert again == [scenario] * racing
    assert scenario.judges == [found.invariant]
    assert parse(dump(scenario), "x") == scenario


def test_a_server_is_asked_the_cases_of_servers_and_nothing_else_is() -> None:
    assert plan(server=True) == list(SERVER_CASES) == list(asked_of(server=True))
    assert plan() == list(CASES)
    assert {case.id for case in select(["E1"])} < {case.id for case in CASES}
    assert {case.id for case in select(["E1"], server=True)} < {case.id for case in SERVER_CASES}
    assert [case.id for case in select(["E6/sigterm-in-decode"])] == ["E6/sigterm-in-decode"]


def test_every_minimum_of_a_server_can_be_reached() -> None:
    for item in CATALOGUE:
        mine = [case for case in SERVER_CASES if case.invariant == item.id]
        assert not mine or "server" in (*item.needs, item.instead)
        assert (
            not mine or item.id == "L1" or len(mine) >= item.asked_of({"server"}).minimum["cases"]
        )


def test_other_targets_are_unsupported_of_what_needs_a_server() -> None:
    found = judge("refengine", ["E6/sigterm-in-decode"], jobs=1)
    [verdict] = found.verdicts
    assert verdict.verdict == "unsupported"
    assert verdict.cases[0].cause == "the target lacks server"


def test_a_server_is_unsupported_of_what_it_is_not() -> None:
    found = judge(f"serve:{EXAMPLE}", ["Q6/writer-dies-while-readers-wait"], jobs=1)
    assert [verdict.verdict for verdict in found.verdicts] == ["unsupported"]
    assert BY_ID["E1"].lacking({"server"}) == []
    assert BY_ID["E1"].lacking({"queue"}) == ["engine"]


def test_the_example_is_a_server() -> None:
    spec = resolve(f"serve:{EXAMPLE}")
    assert is_server(spec)
    target = build(spec)
    assert (target.name, target.capabilities) == ("plain_server", {"server"})
    program = load_program(EXAMPLE)
    assert program.plays_in("tensor-parallel")
    assert not program.plays_in("data-parallel")
    words = program.argv("tensor-parallel", 8123, Path("/x"))
    assert words[1:] == [str(EXAMPLE.parent / "plain_server.py"), "8123"]


def test_a_drain_that_is_asked_for_takes_the_place_of_the_one_that_is_stated() -> None:
    program = load_program(EXAMPLE)
    assert program.drain_of(drains=True) == program.drain_of(drains=False) == 3.0
    asked = msgspec.structs.replace(program, asked_drain=AskedDrain(["--calmly"], 8.0))
    assert (asked.drain_of(drains=True), asked.drain_of(drains=False)) == (8.0, 3.0)
    assert asked.argv("tensor-parallel", 1, Path(), drains=True)[-1] == "--calmly"
    assert "--calmly" not in asked.argv("tensor-parallel", 1, Path())


def test_the_reference_can_be_started_in_its_topologies() -> None:
    target = build(resolve("serve:refengine"))
    assert isinstance(target, HasServer)
    program = target.server_program()
    assert program.argv("data-parallel", 1, Path())[-2:] == ["--data-parallel", "2"]
    assert len(program.prompts) >= 12


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('"{port}"', '"80"'), r":8: nothing takes the port; expected `{port}`"),
        (
            ("health = ", "helth = "),
            r":11: unknown key 'helth'; expected one of: answer_tokens, asked_drain, by_replica",
        ),
        (('model = "plain"', "model = 3"), r":10: expected `str`, got `int`"),
        (('core = "^core"', 'core = "^(core"'), r"expected a regular expression"),
        (('core = "^core"', 'kernel = "^core"'), r":20: unknown key 'kernel'; expected: front"),
        (("drain = 3.0", "drain = -3.0"), r":14: expected `float` >= 0"),
        (('health = "/health"', 'health = "health"'), r":11: 'health'; expected a path"),
        (('name = "plain_server"', ""), r"missing required field `name`"),
        (("[titles]", "[titles"), r"expected TOML"),
        (
            ("[titles]", '[disclaims]\nE33 = "x"\n[titles]'),
            r":20: unknown invariant 'E33'; expected",
        ),
        (
            ("[titles]", '[unjudged]\nE33 = "x"\n[titles]'),
            r":20: unknown invariant 'E33'; expected",
        ),
    ],
)
def test_a_file_that_tells_of_no_server_is_refused_with_its_line(
    change: tuple[str, str], told: str, tmp_path: Path
) -> None:
    file = tmp_path / "server.toml"
    text = EXAMPLE.read_text("utf-8")
    assert change[0] in text
    file.write_text(text.replace(*change), "utf-8")
    with pytest.raises(BadUsage, match=told):
        resolve(f"serve:{file}")


@pytest.mark.parametrize("spec", ["serve:nothing.toml", "serve:nobody", "serve:"])
def test_a_server_that_there_is_not_is_bad_usage(spec: str) -> None:
    with pytest.raises(BadUsage):
        resolve(spec)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[steps]]\ndo = "server-continue-load"\nseconds = 1\n', "expected `server-start` first"),
        (f'{START}[[steps]]\ndo = "make"\n', "expected a server's steps"),
        (f'{START}[[steps]]\ndo = "attack"\nrole = "front"\nhow = "flood"\n', "listen, speak"),
        (f'{START}[[steps]]\ndo = "fault"\nfault = "cut"\nrole = "front"\n', "expected two-nodes"),
    ],
)
def test_a_story_that_no_server_can_be_told_is_refused(text: str, told: str) -> None:
    with pytest.raises(BadUsage, match=told):
        parse(f'case = "E6/x"\njudges = ["E6"]\n{text}[server]\n', "x.toml")


def test_only_a_server_has_a_tmpdir_that_is_filled() -> None:
    text = 'case = "Q6/x"\njudges = ["Q6"]\n[[steps]]\ndo = "make"\n'
    text += '[[steps]]\ndo = "fault"\nfault = "fill-tmp"\nrole = "writer"\n'
    with pytest.raises(BadUsage, match="fill-tmp without a server"):
        parse(text, "x.toml")


def test_a_step_of_a_server_needs_one() -> None:
    text = 'case = "E6/x"\njudges = ["E6"]\n[[steps]]\ndo = "server-start"\n'
    with pytest.raises(BadUsage, match=r"expected a table \[server\]"):
        parse(text, "x.toml")


def test_what_its_documents_do_not_promise_is_beyond_contract_but_not_how_it_ends(
    tmp_path: Path,
) -> None:
    file = tmp_path / "server.toml"
    cited = '[disclaims]\nE3 = "manual.md: a dead part ends all"\nS3 = "manual.md: no keys"\n'
    file.write_text(EXAMPLE.read_text("utf-8") + cited, "utf-8")
    found = build(resolve(f"serve:{file}")).disclaimers
    for kind in ("lost", "starved"):
        assert disclaimed(found, "E3/replica-killed", kind) == "manual.md: a dead part ends all"
    for kind in ("late", "hang"):
        assert not disclaimed(found, "E3/replica-killed", kind)
    assert disclaimed(found, "S3/strangers", "lost") == "manual.md: no keys"
    assert not disclaimed(found, "E1/replica-killed", "lost")


def test_what_a_first_start_found_out_is_given_to_later_ones_as_it_was_then(
    tmp_path: Path,
) -> None:
    file = tmp_path / "server.toml"
    text = EXAMPLE.read_text("utf-8").replace("{here}", str(EXAMPLE.parent))
    kept = 'keeps = ["cache/found"]\nenvironment = { PLAIN_CACHE = "{folder}/cache/found" }\n'
    file.write_text(text.replace("[titles]", f"{kept}[titles]", 1), "utf-8")
    player = ServerPlayer(resolve(f"serve:{file}"), tmp_path)
    scenario = Scenario("E7/a", ["E7"], [ServerStart(), ServerStop()], server=ServerShape())
    had: list[set[str]] = []
    for name in ("first", "second", "third"):
        found = tmp_path / name / "own" / "cache" / "found"
        (found if name == "first" else found.parents[2] / "t").mkdir(parents=True)
        (tmp_path / name / "t").mkdir(exist_ok=True)
        assert player.play(scenario, tmp_path / name, ordinary=True).stalled == ""
        had.append({path.name for path in found.iterdir()})
    first, second, third = had  # each start adds a file of its own
    assert (len(first), len(second), len(third)) == (1, 2, 2)
    assert first < second
    assert first == second & third
