"""A method's result cannot be pickled, with asynchronous scheduling: what is told, and then?"""

import _loader
from _bounded import main
from _pool import Worker, started


class Inspected(Worker):
    def hooks(self):
        return lambda: None  # no lambda can be pickled


def shows():
    executor = started(Inspected, asynchronous=True)
    said = []
    for method in ("hooks", "pid"):
        try:
            executor.collective_rpc(method, timeout=5)
            said.append("")
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    first, then = said
    timed_out = "TimeoutError" in first and "TimeoutError" in then
    return f"hooks() ended with {first}; pid(), called next, with {then}" if timed_out else ""


if __name__ == "__main__":
    main(shows)
