"""A package outside the tree adds a system, a fault and two targets: it is installed and played."""

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from killpoint import extensions
from killpoint.errors import BadUsage

EXAMPLE = Path(__file__).parents[1] / "examples" / "mailbox"
_MAIN = "from killpoint.entry import main; raise SystemExit(main())"
LOST = """
case = "M1/lost-on-its-way"
judges = ["M1"]

[extension]
system = "mailbox"

[[steps]]
do = "mailbox-open"
[[steps]]
do = "mailbox-connect"
[[steps]]
do = "wait"
within = 10.0
[[steps]]
do = "letter-post"
[[steps]]
do = "wait"
within = 10.0
[[steps]]
do = "fault"
fault = "lose-letter"
role = "poster-0"
[[steps]]
do = "letter-post"
count = 2
[[steps]]
do = "letter-take"
count = 5
[[steps]]
do = "wait"
within = 15.0
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder that the example is installed in, as pip installs any package."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    local = ["--no-build-isolation", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([*pip, *local, str(EXAMPLE)], check=True, stdin=subprocess.DEVNULL)
    return folder


def killpoint(installed, *arguments):
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", _MAIN, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def verdicts(done):
    return {id: each["verdict"] for id, each in json.loads(done.stdout)["invariants"].items()}


def test_its_system_is_judged(installed, tmp_path):
    done = killpoint(
        installed, "check", "--target", "socket-mailbox", "--json", "--out", str(tmp_path)
    )
    assert done.returncode == 0, done.stderr
    said = verdicts(done)
    assert (said["M1"], said["M2"]) == ("holds", "holds")


def test_a_target_that_breaks_a_promise_is_convicted_and_the_file_replays_it(installed, tmp_path):
    done = killpoint(
        *[installed, "check", "--target", "careless-mailbox", "--only", "M2", "--json"],
        *["--out", str(tmp_path)],
    )
    assert done.returncode == 1, done.stderr
    assert verdicts(done)["M2"] == "violated"
    (file,) = tmp_path.rglob("replays/M2-poster-killed.toml")
    again = killpoint(installed, "replay", str(file))
    assert again.returncode == 1, again.stderr
    healthy = killpoint(installed, "replay", str(file), "--target", "socket-mailbox")
    assert healthy.returncode == 0, healthy.stdout + healthy.stderr


def test_its_fault_is_done_and_judged(installed, tmp_path):
    file = tmp_path / "lost.toml"
    file.write_text(LOST)
    done = killpoint(installed, "replay", str(file), "--target", "socket-mailbox")
    assert done.returncode == 1, done.stderr
    assert "letter 1 of poster-0 was posted and not taken in its turn" in done.stdout


@pytest.mark.parametrize(
    ("what", "said"),
    [("faults", "lose-letter"), ("invariants", "M2"), ("cases", "M1/two-posters")],
)
def test_what_it_adds_is_listed(installed, what, said):
    assert said in killpoint(installed, "list", what).stdout


def test_its_steps_belong_to_its_own_scenarios(installed, tmp_path):
    file = tmp_path / "queue.toml"
    file.write_text(LOST.replace('[extension]\nsystem = "mailbox"\n', ""))
    done = killpoint(installed, "replay", str(file), "--target", "refengine")
    assert done.returncode == 2
    assert "mailbox-open without a mailbox" in done.stderr


def test_a_step_of_another_system_is_not_taken_for_the_targets_fault(installed, tmp_path):
    file = tmp_path / "mixed.toml"
    file.write_text(LOST.replace('do = "letter-take"\ncount = 5', 'do = "close"\nroles = ["all"]'))
    done = killpoint(installed, "replay", str(file), "--target", "socket-mailbox")
    assert done.returncode == 3
    assert "close is no step of this system" in done.stdout + done.stderr


def test_its_scenarios_are_refused_where_it_is_not_installed(tmp_path):
    file = tmp_path / "lost.toml"
    file.write_text(LOST)
    done = killpoint("", "replay", str(file), "--target", "refengine")
    assert done.returncode == 2
    assert "lost.toml" in done.stderr


class TestNames:
    @pytest.fixture(autouse=True)
    def _forget(self):
        extensions.entries.cache_clear()
        yield
        extensions.entries.cache_clear()

    def given(self, monkeypatch, *entries):
        found = EntryPoints(EntryPoint(name, value, "killpoint.faults") for name, value in entries)
        monkeypatch.setattr(extensions, "entry_points", lambda group: found.select(group=group))

    def test_two_of_one_name_are_told(self, monkeypatch):
        self.given(monkeypatch, ("melt", "a.b:C"), ("melt", "d.e:F"))
        with pytest.raises(BadUsage, match=r"two of killpoint's faults .*a\.b:C.*d\.e:F"):
            extensions.entries("faults")

    def test_what_cannot_be_imported_says_whose_it_is(self, monkeypatch):
        self.given(monkeypatch, ("melt", "no_such_module_anywhere:Melt"))
        with pytest.raises(BadUsage, match=r"no_such_module_anywhere:Melt .* ModuleNotFoundError"):
            extensions.load("faults", "melt")

    def test_of_what_nobody_adds_the_name_is_told(self, monkeypatch):
        self.given(monkeypatch)
        with pytest.raises(BadUsage, match="no installed package adds 'melt'"):
            extensions.load("faults", "melt")
