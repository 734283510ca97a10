"""The pytest plugin: scenario files and conformance cases as items, the card as the summary."""

from __future__ import annotations

import faulthandler
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import cast, get_args

import msgspec
import pytest

from killpoint.case import Case
from killpoint.errors import KillpointError
from killpoint.invariants import CATALOGUE
from killpoint.judgement.replay import play_once
from killpoint.report.junit_properties import properties
from killpoint.report.known import Known, find
from killpoint.report.known import load as load_known
from killpoint.runner.observe.gpus import require
from killpoint.runner.stage import Stage
from killpoint.scenario import Scenario, load
from killpoint.search.case_run import CaseRun
from killpoint.targets.registry import FORMS, resolve
from killpoint.targets.shapes import Device
from killpoint.verdict import CaseOutcome, pace

_TOLD = "killpoint_outcomes"
"""Name of a report's property, for the card: outcomes as JSON, beside pytest's own."""
_STEPS = re.compile(r"^(\[\[steps\]\]|steps\b)", re.MULTILINE)
_CASE = re.compile(r"^(case|judges)\s*=", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the conformance suite and of scenario files."""
    group = parser.getgroup("killpoint", "conformance and fault injection")
    group.addoption("--target", default=None, help=f"what is judged: {FORMS} (default: refengine)")
    group.addoption(
        "--device", choices=get_args(Device), default="cpu", help="where a pool's workers run"
    )
    group.addoption("--seed", type=int, default=0, help="seed of samples and payloads")
    group.addoption("--budget", type=float, help="seconds after which no further case is begun")
    group.addoption("--full", action="store_true", help="every point, larger samples")
    group.addoption(
        "--known", type=Path, help="known failures: xfail, and a failure once they hold"
    )
    group.addoption("--killpoint-out", type=Path, help="keep replays and records in this folder")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Turn faulthandler off: nothing may change how a process under test dies.

    Last of all, because pytest's own plugin turns it on while it is being configured. Our marks are
    registered here, too, so that no user of the suite has to list them.
    """
    config.addinivalue_line("markers", "gpu: needs an accelerator")
    os.environ.pop("PYTHONFAULTHANDLER", None)
    plugin = config.pluginmanager.get_plugin("faulthandler")
    if plugin is not None:
        config.pluginmanager.unregister(plugin)
    faulthandler.disable()
    try:
        require(str(config.getoption("--device")))
        known: Path | None = config.getoption("--known")
        config.stash[_KNOWN] = load_known(known) if known is not None else []
    except KillpointError as error:
        raise pytest.UsageError(str(error)) from error
    config.stash[_STAGES] = Stages(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Let ``-n auto`` be two workers for each core, unless xdist was set: plays mostly wait."""
    told = "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ
    return None if told else 2 * (os.cpu_count() or 1)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """End the zygotes before others sum up: what they measured (``--cov``) is written by then."""
    try:
        return (yield)
    finally:
        _end_zygotes(session.config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the zygotes of this worker, if something broke the loop off."""
    _end_zygotes(config)


def _end_zygotes(config: pytest.Config) -> None:
    stages = config.stash.get(_STAGES, None)
    if stages is not None:
        stages.close()


class Stages:
    """The stages of one pytest process, one for each target, made when first used."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._stages: dict[str, Stage] = {}
        self._own: Path | None = None

    def of(self, spec: str) -> Stage:
        """The stage of a target."""
        if spec not in self._stages:
            self._stages[spec] = Stage(resolve(spec))
        return self._stages[spec]

    def folder(self) -> Path:
        """Return the folder for this run's replays and records."""
        chosen: Path | None = self.config.getoption("--killpoint-out")
        if chosen is not None:
            return chosen.absolute()
        if self._own is None:
            self._own = Path(tempfile.mkdtemp(prefix="killpoint-replays-"))
        return self._own

    def close(self) -> None:
        """End every zygote; a folder in which nothing was kept goes, too."""
        for stage in self._stages.values():
            stage.close()
        self._stages.clear()
        if self._own is not None and not (self._own / "replays").exists():
            shutil.rmtree(self._own, ignore_errors=True)


_STAGES = pytest.StashKey[Stages]()
_KNOWN = pytest.StashKey[list[Known]]()
_OUTCOMES = pytest.StashKey[list[str]]()


class Referee:
    """Judges cases on the target of this session and reports them to pytest."""

    def __init__(self, stages: Stages, item: pytest.Item) -> None:
        self._stages = stages
        self._item = item

    def judge(self, case: Case, target: str | None = None) -> CaseOutcome:
        """Play one case; fail or skip the running test unless it is held."""
        outcome = self.outcome(case, target)
        self.report(outcome, target)
        return outcome

    def report(self, outcome: CaseOutcome, target: str | None = None) -> None:
        """Put an outcome on the card, and fail or skip the running test as it says."""
        stage = self.stage() if target is None else self._stages.of(target)
        tell(self._item, stage, [outcome], int(self._item.config.getoption("--seed") or 0))

    def stage(self) -> Stage:
        """The stage of this session's target."""
        return self._stages.of(self._stages.config.getoption("--target") or "refengine")

    def folder(self) -> Path:
        """Return the folder for this run's replays and records."""
        return self._stages.folder()

    def outcome(self, case: Case, target: str | None = None) -> CaseOutcome:
        """Play one case and return its outcome, whatever it is."""
        config = self._stages.config
        spec: str = target or config.getoption("--target") or "refengine"
        stage = self._stages.of(spec)
        case_run = CaseRun(
            case.id,
            stage,
            seed=int(config.getoption("--seed") or 0),
            full=bool(config.getoption("--full")),
            folder=self._stages.folder(),
            target=spec,
            device=cast("Device", config.getoption("--device")),
            confirms=True,
            summary=case.summary,
        )
        return case_run.judge(case.run, case.needs - set(stage.zygote.loaded.capabilities))


@pytest.fixture
def referee(request: pytest.FixtureRequest) -> Referee:
    """Judges cases on this session's target."""
    return Referee(request.config.stash[_STAGES], cast("pytest.Item", request.node))


def tell(item: pytest.Item, stage: Stage, outcomes: Sequence[CaseOutcome], seed: int) -> None:
    """Put outcomes on the card and into JUnit's properties, and end the item as they say."""
    loaded = stage.zygote.loaded
    told = item.stash.setdefault(_OUTCOMES, [])
    for outcome in outcomes:
        told.append(msgspec.json.encode(outcome).decode())
        facts = properties(outcome, f"{loaded.name} {loaded.version}", seed)
        item.user_properties.extend(facts.items())
    known = item.config.stash[_KNOWN]
    conclude(outcomes, [k for k in known if k.is_of(loaded.name, loaded.version)])


def conclude(outcomes: Sequence[CaseOutcome], known: Sequence[Known] = ()) -> None:
    """Fail, skip or pass the running test: what is new fails it, whatever else is known.

    Args:
        known: failures of this target's release; one that is strict must not hold.
    """
    entries = {o.id: find(known, o.id, o.kind, o.cause) for o in outcomes}
    for outcome in outcomes:
        if outcome.outcome in ("violated", "inconclusive") and entries[outcome.id] is None:
            pytest.fail(describe(outcome), pytrace=False)
    for outcome in outcomes:
        for gone in (k for k in known if k.strict and k.case == outcome.id):
            if outcome.outcome == "held":
                words = f"known failure no longer fails: {gone.words()}; remove it"
                pytest.fail(words, pytrace=False)
    for outcome in outcomes:
        if (entry := entries[outcome.id]) is not None:
            pytest.xfail(f"known failure: {entry.words()}")
    for outcome in outcomes:
        if outcome.outcome == "unsupported":
            pytest.skip(f"{outcome.id}: unsupported: {outcome.cause}")


def describe(outcome: CaseOutcome) -> str:
    """A failed case for people: the cause, the lines that show it, the replay command."""
    lines = [
        f"{outcome.id}: {outcome.outcome} ({outcome.kind})"
        if outcome.kind
        else f"{outcome.id}: {outcome.outcome}",
        outcome.cause,
    ]
    lines += [f"    {line}" for line in outcome.evidence]
    if outcome.replay:
        lines.append(f"killpoint replay {outcome.replay}")
    return "\n".join(lines)


# -- scenario files -------------------------------------------------------------------------


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> ScenarioFile | None:
    """Collect a TOML file that holds a case and its steps as a scenario; this runs no target.

    A file that was named itself need hold steps alone: what it lacks is reported. Where a folder is
    searched, other tools' files of steps are left to them.
    """
    if file_path.suffix != ".toml" or file_path.name == "pyproject.toml":
        return None
    text = file_path.read_text("utf-8", errors="replace")
    named = parent.session.isinitpath(file_path)
    if not _STEPS.search(text) or not (named or _CASE.search(text)):
        return None
    make = cast("Callable[..., ScenarioFile]", ScenarioFile.from_parent)
    return make(parent, path=file_path)


class ScenarioFile(pytest.File):
    """A scenario file, with one item for itself."""

    def collect(self) -> Iterable[ScenarioItem]:
        """The scenario, parsed."""
        try:
            scenario = load(self.path)
        except KillpointError as error:
            raise self.CollectError(str(error)) from error
        make = cast("Callable[..., ScenarioItem]", ScenarioItem.from_parent)
        yield make(self, name=scenario.case, scenario=scenario)


class ScenarioItem(pytest.Item):
    """Plays one scenario file on the session's target."""

    def __init__(self, name: str, parent: ScenarioFile, scenario: Scenario) -> None:
        cast("Callable[..., None]", super().__init__)(name=name, parent=parent)
        self.scenario = scenario

    def runtest(self) -> None:
        """Play and judge it; several judges, one result."""
        stages = self.config.stash[_STAGES]
        spec: str = self.config.getoption("--target") or self.scenario.target or "refengine"
        replayed = play_once(stages.of(spec), self.scenario, spec, stages.folder())
        tell(self, stages.of(spec), replayed.outcomes, self.scenario.seed)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the place of the item, for pytest's lines."""
        return self.path, 0, self.scenario.case


# -- summary --------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let the report of an item carry its outcomes, also from a worker of xdist."""
    report = yield
    if report.when == "call" and _OUTCOMES in item.stash:
        vars(report)[_TOLD] = item.stash[_OUTCOMES]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The card of this session: each invariant with the outcomes of its cases."""
    outcomes = [
        msgspec.json.decode(told, type=CaseOutcome)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for told in cast("list[str]", vars(report).get(_TOLD, []))
    ]
    if not outcomes:
        return
    terminalreporter.section("killpoint")
    told = {outcome.invariant for outcome in outcomes}
    for id in (item.id for item in CATALOGUE if item.id in told):  # in whatever order they ran
        words = [outcome.outcome for outcome in outcomes if outcome.invariant == id]
        counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
        aimed = [o for o in outcomes if o.invariant == id and o.struck is not None]
        struck = sum(o.struck or 0 for o in aimed)
        faults = f"; {struck} of {sum(o.runs for o in aimed)} faults struck" if aimed else ""
        paces = "".join(f"; {paced}" for o in aimed if (paced := pace(o)))
        terminalreporter.write_line(f"{id:4} {counts}{faults}{paces}")
