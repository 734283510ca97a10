"""The reference as if it had native code: it is then killed at any time, and not at lines alone."""

from __future__ import annotations

from killpoint.targets.refengine.adapter import RefengineTarget


class Reference(RefengineTarget):
    name = "struck_at_any_time"
    capabilities = RefengineTarget.capabilities | {"native"}
