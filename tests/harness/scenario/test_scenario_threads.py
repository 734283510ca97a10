"""A check parses scenarios in several threads: the first ones too."""

import subprocess
import sys

_AT_ONCE = """
import sys, threading
sys.setswitchinterval(1e-6)
from killpoint.scenario.file import parse
text = 'case = "R3/x"\\njudges = ["R3"]\\n[[steps]]\\ndo = "make"\\n'
together = threading.Barrier(4)
def first():
    together.wait(10)
    parse(text, "x")
threads = [threading.Thread(target=first) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(30)
"""


def test_the_first_scenarios_may_be_parsed_by_several_threads_at_once() -> None:
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", _AT_ONCE], check=False, timeout=60)
        assert done.returncode == 0
