"""How many tests of a run passed, from pytest's JUnit file."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Counts:
    """Tests, not test phases: a test that fails and whose teardown fails too counts once."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


def read_counts(report: Path) -> Counts:
    """Counts of one JUnit file; a file that is missing or cut counts nothing."""
    try:
        cases = ET.parse(report).getroot().iter("testcase")
    except (OSError, ET.ParseError):
        return Counts()
    return count(cases)


def count(cases: Iterable[ET.Element]) -> Counts:
    worst: dict[tuple[str | None, str | None], int] = {}  # test -> 0 passed, 1 skipped, 2 failed
    for case in cases:
        test = case.get("classname"), case.get("name")
        worst[test] = max(worst.get(test, 0), _rank(case))
    by_rank = Counter(worst.values())
    return Counts(passed=by_rank[0], skipped=by_rank[1], failed=by_rank[2])


def _rank(case: ET.Element) -> int:
    outcomes = {child.tag for child in case}
    if outcomes & {"failure", "error"}:
        return 2
    return 1 if "skipped" in outcomes else 0
