"""pytest plugin: where CI is true, a test that was skipped or expected to fail turns the run red, by name.

A test that does not run proves nothing, and a green run hides it.
"""

from __future__ import annotations

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("CI", "").lower() in ("1", "true"):
        config.pluginmanager.register(NoSkipPlugin(), "no-skip")


class NoSkipPlugin:
    def __init__(self) -> None:
        self.skipped: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped:  # includes an expected failure
            why = getattr(report, "wasxfail", None) or report.longrepr
            self.skipped.append(f"{report.nodeid}: {why[-1] if isinstance(why, tuple) else why}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.skipped and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.skipped:
            terminalreporter.section("skipped in CI, where every test must run", red=True)
            for line in self.skipped:
                terminalreporter.line(line)
