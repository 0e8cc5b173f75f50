"""pytest plugin: checks the `requirement` markers, and writes which rules a run showed.

A marker that names a rule which docs/semantics.md does not state stops the collection: a typing error would
otherwise read as a rule without a test.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.requirements import RULES, Results, Rules, parse_rules, unknown

_RULE = "requirement"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rules-report", type=Path, help="write rule -> outcome -> tests to this JSON file")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RulesPlugin(config), "rules-report")


def rules_of(item: pytest.Item) -> list[str]:
    return [rule for mark in item.iter_markers("requirement") for rule in mark.args]


class RulesPlugin:
    def __init__(self, config: pytest.Config) -> None:
        self.page = config.rootpath / RULES
        self.report: Path | None = config.getoption("--rules-report")
        self.started = time.time()
        self.results = Results()
        self.is_worker = hasattr(config, "workerinput")
        self.rules_by_test: dict[str, list[str]] = {}
        self.outcome_by_test: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        rules = parse_rules(self.page.read_text(encoding="utf-8") if self.page.exists() else "")
        problems = [problem for item in items for problem in self._problems(item, rules)]
        if problems:
            raise pytest.UsageError("\n".join(problems))
        for item in items:  # with its reports: they may come from another process, that of a worker of xdist
            item.user_properties += [(_RULE, rule) for rule in rules_of(item)]

    def _problems(self, item: pytest.Item, rules: Rules) -> Iterator[str]:
        for mark in item.iter_markers("requirement"):
            if not mark.args or not all(isinstance(rule, str) for rule in mark.args):
                yield f'{item.nodeid}: requirement() takes the ids of rules, such as requirement("S1-12")'
            for rule in unknown([str(rule) for rule in mark.args], rules):
                yield f"{item.nodeid}: {RULES} states no rule {rule}: correct the marker, or state the rule"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        order = ["passed", "skipped", "failed"]  # the worst of set-up, call and teardown counts
        before = self.outcome_by_test.get(report.nodeid, "passed")
        self.outcome_by_test[report.nodeid] = max(before, report.outcome, key=order.index)
        self.rules_by_test[report.nodeid] = [str(rule) for name, rule in report.user_properties if name == _RULE]

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if (
            self.is_worker
            or self.report is None
            or exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        ):
            return
        for test, outcome in self.outcome_by_test.items():
            for rule in self.rules_by_test.get(test, ()):
                self.results.add(rule, outcome, [test])
        self.report.parent.mkdir(parents=True, exist_ok=True)
        self.report.write_text(self.results.to_json(self.started))
