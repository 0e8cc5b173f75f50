"""Which rules of docs/semantics.md the tests show, from what the tests did, not from what they claim.

    python -m tests.tools.requirements

A test names the rules it shows with `@pytest.mark.requirement("S1-12")`; the pytest plugin beside this file
writes the outcome of each test under its rules. A tier whose last full run is older than a source file is
run again first. The exit status is 1 when a rule has a failing test.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.tools.tiers import ROOT, TIERS, Tier, run_tier

RULES = Path("docs/semantics.md")
RULE_LINE = re.compile(r"^- \*\*(S\d+-\d+)\*\*(?: \((planned|ruling)\))?", re.MULTILINE)
SOURCES = ("operator/rekindle", "tests", "examples", "docs/semantics.md", "pyproject.toml")

Outcomes = dict[str, set[str]]  # outcome ("passed", "failed", "skipped") -> tests


@dataclass(frozen=True)
class Rules:
    """The rules in the order of the page, which of them are promised for later, and which state what is not done."""

    ids: tuple[str, ...]
    planned: frozenset[str]
    rulings: frozenset[str]


@dataclass
class Results:
    """What one or several runs showed: rule -> outcome -> tests."""

    by_rule: dict[str, Outcomes] = field(default_factory=dict)

    def add(self, rule: str, outcome: str, tests: Iterable[str]) -> None:
        self.by_rule.setdefault(rule, {}).setdefault(outcome, set()).update(tests)

    def count(self, rule: str, outcome: str) -> int:
        return len(self.by_rule.get(rule, {}).get(outcome, ()))

    def to_json(self, started: float) -> str:
        rules = {
            rule: {outcome: sorted(tests) for outcome, tests in sorted(outcomes.items())}
            for rule, outcomes in sorted(self.by_rule.items())
        }
        return json.dumps({"started": started, "rules": rules}, indent=1)


def parse_rules(text: str) -> Rules:
    """Rules are bullets that begin with their id in bold: `- **S1-12** text`, `- **S3-9** (planned) text`."""
    found = RULE_LINE.findall(text)
    ids = tuple(rule for rule, _ in found)
    twice = sorted({rule for rule in ids if ids.count(rule) > 1})
    if twice:
        raise ValueError(f"{RULES}: stated twice: {', '.join(twice)}")
    planned, rulings = (frozenset(rule for rule, mark in found if mark == word) for word in ("planned", "ruling"))
    return Rules(ids, planned, rulings)


def started(report: Path) -> float:
    """When the run that wrote this report began (seconds since the epoch); 0 when there is none to read."""
    try:
        return float(json.loads(report.read_text())["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def newest_source(root: Path) -> float:
    files = [
        file
        for source in SOURCES
        for file in [root / source, *(root / source).rglob("*")]
        if file.is_file() and "__pycache__" not in file.parts
    ]
    return max((file.stat().st_mtime for file in files), default=0.0)


def stale(tiers: Iterable[Tier], newest: float) -> list[Tier]:
    return [tier for tier in tiers if tier.folder and min(map(started, tier.rules)) <= newest]


def merge(reports: Iterable[Path]) -> Results:
    results = Results()
    for report in reports:
        if not report.exists():
            continue
        by_rule: Mapping[str, Mapping[str, list[str]]] = json.loads(report.read_text())["rules"]
        for rule, outcomes in by_rule.items():
            for outcome, tests in outcomes.items():
                results.add(rule, outcome, tests)
    return results


def standing(rule: str, rules: Rules, results: Results) -> str:
    if results.count(rule, "failed"):
        return "FAILED"
    if results.count(rule, "passed"):
        return "passed"
    if rule in rules.rulings:
        return "ruling"
    return "planned" if rule in rules.planned else "not tested"


def table(rules: Rules, results: Results) -> list[str]:
    lines = [f"{'rule':<8} {'tests passed':>12} {'failed':>7}"]
    for rule in rules.ids:
        passed, failed = results.count(rule, "passed"), results.count(rule, "failed")
        lines.append(f"{rule:<8} {passed:>12} {failed:>7}   {standing(rule, rules, results)}")
    stands = [standing(rule, rules, results) for rule in rules.ids]
    counts = ", ".join(
        f"{stands.count(word)} {word}" for word in ("passed", "FAILED", "not tested", "ruling", "planned")
    )
    return [*lines, "", f"{len(rules.ids)} rules: {counts}"]


def main() -> int:
    os.chdir(ROOT)
    rules = parse_rules(RULES.read_text(encoding="utf-8"))
    for tier in stale(TIERS, newest_source(ROOT)):
        print(f"{tier.name}: no full run since the last change, running it", flush=True)
        run_tier(tier)
    results = merge(report for tier in TIERS for report in tier.rules)
    print(*table(rules, results), sep="\n")
    return 1 if any(results.count(rule, "failed") for rule in rules.ids) else 0


def unknown(ids: Sequence[str], rules: Rules) -> list[str]:
    return [rule for rule in ids if rule not in rules.ids]


if __name__ == "__main__":
    sys.exit(main())
