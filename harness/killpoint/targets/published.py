"""Published releases of a project, as the machine's package index lists them."""

from __future__ import annotations

from killpoint.errors import BadUsage, CannotWork

PROJECTS = ("vllm", "sglang")
"""Projects whose releases are targets."""


def published(name: str) -> list[str]:
    """Every release of a project, the oldest first; neither pre-releases nor withdrawn ones.

    A release without an archive that will do is among them: it was published, and the caller
    reports that it could not be had.

    Raises:
        BadUsage: killpoint knows no such project.
        CannotWork: no index here lists any release of it.
    """
    # What asks an index takes a while to import, and most commands never ask one.
    from killpoint.targets.sglang.sources import SGLANG
    from killpoint.targets.vllm.fetch import lookup
    from killpoint.targets.vllm.fetch.index import configured
    from killpoint.targets.vllm.project import VLLM

    project = {each.name: each for each in (VLLM, SGLANG)}.get(name)
    if project is None:
        raise BadUsage(f"{name!r} is no project with releases; expected: {', '.join(PROJECTS)}")
    index = configured()
    with lookup.session(index) as client:
        seen = lookup.listing(index, client, project)
    found = [each for each in seen.releases - seen.yanked if not each.is_prerelease]
    if not found:
        why = f" ({'; '.join(seen.troubles)})" if seen.troubles else ""
        raise CannotWork(f"no package index here lists any release of {name}{why}")
    return [str(version) for version in sorted(found)]
