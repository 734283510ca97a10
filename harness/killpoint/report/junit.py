"""A run as JUnit XML, as Jenkins, GitLab and others read it: a test case for each case.

In the structure of ``junit-10.xsd`` of Jenkins' xUnit plugin, with ``properties`` of a test case
beside it, as pytest writes them too.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from killpoint.report.gate import Gate, gate
from killpoint.report.junit_properties import properties
from killpoint.report.run_folder import StoredCase, StoredRun

_NOT_XML = re.compile(r"[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]")
_SUITE = "killpoint"


def write(run: StoredRun, file: Path, judged: Gate | None = None) -> None:
    """Write a run's file.

    A violation is a failure whose type is its kind; a case that cannot be decided is an error of
    type ``inconclusive`` or ``infrastructure``: a gate must not pass for it, and nothing was found
    broken. Cases that the target cannot be asked are skipped, and so are known failures.

    Args:
        judged: the run with what is known of its target; without it nothing is.
    """
    _write(_suite(run, judged or gate(run)), run.seconds, file)


def write_failure(target: str, words: str, file: Path) -> None:
    """Write that nothing could be judged, as one error of type ``infrastructure``."""
    suite = ET.Element("testsuite", name=f"{_SUITE} {_clean(target)}")
    case = ET.SubElement(suite, "testcase", classname=_SUITE, name="run", time="0.000")
    ET.SubElement(case, "error", type="infrastructure", message=_clean(words))
    _write(suite, 0.0, file)


def _suite(run: StoredRun, judged: Gate) -> ET.Element:
    suite = ET.Element("testsuite", name=_clean(f"{_SUITE} {run.target.label()}"))
    facts = {"target": run.target.label(), "seed": str(run.seed), "device": run.device}
    _properties(suite, facts | {"run": str(run.folder)})
    for verdict in run.invariants.values():
        for case in verdict.cases:
            _case(suite, case, run, judged)
    for id in run.left_out:
        element = _element(suite, id, 0.0)
        why = "left out: the budget was spent"
        ET.SubElement(element, "error", type="inconclusive", message=why)
    for entry in judged.gone:
        words = f"known failure no longer fails: {entry.words()}; remove it"
        element = _element(suite, entry.name, 0.0, " (known failure)")
        ET.SubElement(element, "failure", type="known-failure-gone", message=_clean(words))
    return suite


def _case(suite: ET.Element, case: StoredCase, run: StoredRun, judged: Gate) -> None:
    element = _element(suite, case.id, case.seconds)
    _properties(element, properties(case, run.target.label(), run.seed))
    if case.failure_class is None:
        return
    known = judged.entry_of(case)
    if known is not None:
        tag, message = "skipped", f"known failure: {known.words()}"
    else:
        tags = {"violated": "failure", "inconclusive": "error", "unsupported": "skipped"}
        tag, message = tags[case.outcome], case.cause
    told = ET.SubElement(element, tag, type=case.failure_class, message=_clean(message))
    told.text = _clean(_words(case))


def _words(case: StoredCase) -> str:
    lines = [case.cause, *(f"    {line}" for line in case.evidence)]
    lines += [f"killpoint replay {file}" for file in (case.replay, case.shrunk) if file]
    return "\n".join(lines)


def _element(suite: ET.Element, id: str, seconds: float, more: str = "") -> ET.Element:
    invariant, _, name = id.partition("/") if "/" in id else ("findings", "", id)
    about = {"classname": _clean(invariant), "name": _clean(name + more)}
    return ET.SubElement(suite, "testcase", about, time=f"{seconds:.3f}")


def _properties(element: ET.Element, facts: dict[str, str]) -> None:
    properties = ET.SubElement(element, "properties")
    for name, value in facts.items():
        ET.SubElement(properties, "property", name=name, value=_clean(value))


def _write(suite: ET.Element, seconds: float, file: Path) -> None:
    counts = {"tests": str(len(suite.findall("testcase")))}
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        counts[attribute] = str(len(suite.findall(f"testcase/{tag}")))
    suite.attrib |= counts | {"time": f"{seconds:.3f}"}
    root = ET.Element("testsuites", suite.attrib | {"name": _SUITE})
    del root.attrib["skipped"]  # the schema has none there
    root.append(suite)
    ET.indent(root)
    file.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(root).write(file, "utf-8", xml_declaration=True)


def _clean(text: str) -> str:
    """Remove the characters that XML cannot hold: a cause may quote any byte."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
