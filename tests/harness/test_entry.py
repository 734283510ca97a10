"""The quick way to a look: what the other commands need is not imported, and it says the same."""

import os
import subprocess
import sys

import pytest

from killpoint import cli
from killpoint.entry import main

_HEAVY = ("killpoint.cases", "killpoint.bench", "unearth", "zmq", "torch")


def test_a_look_imports_nothing_of_the_other_commands():
    text = (
        "import sys; from killpoint.entry import main; status = main();"
        f" print(*sorted(set(sys.modules) & set({_HEAVY!r}))); sys.exit(status)"
    )
    command = [sys.executable, "-c", text, "inspect", str(os.getpid())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.startswith(("all clear", "cannot tell", "everybody waits for")), done
    assert done.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize("words", [["inspect", "--help"], ["inspect", "0"], ["inspect", "x"]])
def test_it_says_what_the_whole_command_line_says(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["killpoint", *words])
    said = []
    for act in (main, cli.main):
        try:
            status = act()
        except SystemExit as left:
            status = left.code
        said.append((status, capsys.readouterr()))
    assert said[0] == said[1]
    assert said[0][0] == (0 if "--help" in words else 2)


def test_other_commands_are_there(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["killpoint", "list", "invariants"])
    assert main() == 0
    assert "Q1" in capsys.readouterr().out
