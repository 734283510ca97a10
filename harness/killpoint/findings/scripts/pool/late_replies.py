"""Two workers refuse a call, the engine goes on: what does the next call return?"""

import _loader
from _bounded import main
from _pool import Worker, started


class Adapters(Worker):
    def add_lora(self, name):
        if name == "broken":
            raise ValueError(f"rank {self.rank}: no adapter {name!r}")
        return name


def shows():
    executor = started(Adapters)
    try:
        executor.collective_rpc("add_lora", args=("broken",), timeout=20)
        raise AssertionError("the broken adapter was loaded")
    except RuntimeError:
        pass  # as it should be: this call failed
    try:
        got = executor.collective_rpc("add_lora", args=("good",), timeout=20)
    except RuntimeError as error:
        got = str(error)
    return "" if got == ["good", "good"] else f"add_lora('good') was answered: {got}"


if __name__ == "__main__":
    main(shows)
