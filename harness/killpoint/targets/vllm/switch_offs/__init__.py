"""Switch-offs of vLLM's findings: small edits, in memory, that each remove one bug of its code.

A switch-off is the causal test of a finding: a promise that is violated with the bug, and holds
without it, belongs to that finding. It is also the fix that an issue suggests, as a diff. None of
vLLM's text is kept here: an edit finds its place by the syntax around it
(:mod:`killpoint.targets.edits`), and reports where a release has no such place.
"""

from typing import cast

from killpoint import extensions
from killpoint.targets.vllm.switch_offs import around_queue, messages, peers, resources
from killpoint.targets.vllm.switch_offs.table import SWITCH_OFFS, Edit, applied, diff, fits, known

PARTS = (around_queue, messages, peers, resources)
"""Modules whose edits the table keeps."""

for _table in extensions.everything("switch_offs", "SWITCH_OFFS"):
    SWITCH_OFFS.update(cast("dict[str, dict[str, Edit]]", _table))

__all__ = ["SWITCH_OFFS", "applied", "diff", "fits", "known"]
