"""Says by its status whether what pip would install, as its --report has it, asks for CUDA.

Runs with pip's own packaging library: nothing else is installed when it is asked.
"""

import json
import re
import sys
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement


def brings_cuda(report: dict) -> bool:
    """Whether a distribution in the report is, or needs here, a CUDA package."""
    for item in report["install"]:
        metadata = item["metadata"]
        local = metadata["version"].partition("+")[2]
        needs = map(Requirement, metadata.get("requires_dist", []))
        names = [r.name for r in needs if r.marker is None or r.marker.evaluate({"extra": ""})]
        if re.match(r"cu\d", local) or any(re.match(r"nvidia-|cuda-", n) for n in names):
            return True
    return False


if __name__ == "__main__":
    sys.exit(not brings_cuda(json.loads(Path(sys.argv[1]).read_text())))
