"""What job masters told last of their jobs, for the status of their applications and for when their driver is lost."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from rekindle.api.job_report import JobReport
from rekindle.controller.recovery.job_facts import JobFacts, facts_of
from rekindle.controller.resources import Key

_TOLD_SECONDS = 10.0
"""A job of many short tasks changes at each exchange; it is told no oftener than this."""


@dataclass
class _Known:
    driver: str
    report: JobReport | None
    newest: JobFacts
    told: JobFacts
    told_at: float


class KnownJobs:
    """One for each application whose driver has told of a job, until no driver can follow it."""

    def __init__(self) -> None:
        self._known: dict[Key, _Known] = {}
        self._listeners: list[Callable[[Key], None]] = []

    def listen(self, listener: Callable[[Key], None]) -> None:
        """Tell `listener` of applications whose job has changed."""
        self._listeners.append(listener)

    def of(self, key: Key, driver: str, *, newest: bool = False) -> JobFacts | None:
        """What the job master in the pod with that uid told; None where it told nothing. `newest`: not only what
        listeners have been told of."""
        known = self._known.get(key)
        if known is None or known.driver != driver:
            return None
        return known.newest if newest else known.told

    def hear(self, key: Key, driver: str, report: JobReport | None) -> None:
        """The job master in the pod with that uid has told this; None: nothing, as its job is too large."""
        known, now = self._known.get(key), time.monotonic()
        if known is None or known.driver != driver:
            if report is None:
                return
            facts = facts_of(report)
            self._known[key] = _Known(driver, report, facts, facts, now)
            self._tell(key)
            return
        if report != known.report:
            known.report, known.newest = report, facts_of(report)
        if known.newest is not known.told and now - known.told_at >= _TOLD_SECONDS:
            known.told, known.told_at = known.newest, now
            self._tell(key)

    def all(self) -> dict[Key, JobFacts]:
        """[application -> what was heard of its job last]"""
        return {key: known.newest for key, known in self._known.items()}

    def forget(self, key: Key) -> None:
        """No driver of it can follow."""
        self._known.pop(key, None)

    def _tell(self, key: Key) -> None:
        for listener in self._listeners:
            listener(key)
