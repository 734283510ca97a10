"""The structure that readers of JUnit XML rely on: junit-10.xsd, with properties of cases."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

_TIME = re.compile(r"\d+(\.\d{0,3})?")
_RESULT = {"type", "message"}
_ALLOWED = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname"},
        {"properties", "testcase"},
    ),
    "testcase": ({"name", "classname", "time"}, {"properties", "skipped", "error", "failure"}),
    "properties": (set[str](), {"property"}),
    "property": ({"name", "value"}, set[str]()),
    "skipped": (_RESULT, set[str]()),
    "error": (_RESULT, set[str]()),
    "failure": (_RESULT, set[str]()),
}
"""Of each element its attributes and what it may hold."""


def cases(file: Path) -> dict[str, ET.Element]:
    """Claim that a file is JUnit XML; its test cases by ``classname/name``."""
    root = ET.parse(file).getroot()
    assert root.tag == "testsuites"
    for element in root.iter():
        attributes, inside = _ALLOWED[element.tag]
        assert element.attrib.keys() <= attributes, element.attrib
        assert {child.tag for child in element} <= inside, element.tag
    for suite in root.iter("testsuite"):
        _counted(suite)
        assert root.attrib["tests"] == suite.attrib["tests"]
    found = list(root.iter("testcase"))
    for case in found:
        assert _TIME.fullmatch(case.attrib["time"])
        assert sum(child.tag != "properties" for child in case) <= 1
        assert [child.tag for child in case][:1] in ([], ["properties"], [case[-1].tag])
    return {f"{case.attrib['classname']}/{case.attrib['name']}": case for case in found}


def _counted(suite: ET.Element) -> None:
    assert _TIME.fullmatch(suite.attrib["time"])
    assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.attrib[attribute]) == len(suite.findall(f"testcase/{tag}")), attribute


def properties(case: ET.Element) -> dict[str, str]:
    """The properties of a test case."""
    return {each.attrib["name"]: each.attrib["value"] for each in case.iter("property")}
