"""How many attempts of each job vertex have made no result partition: losers of a race, those that failed, and those
that were cut off. What they wrote is aborted (`S5-13`)."""

from __future__ import annotations

from collections import Counter

from rekindle.core import events as ev
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID


class AbortedAttempts:
    """Folded from the events of a run, in their order, over all of its drivers."""

    def __init__(self) -> None:
        self._running: dict[ExecutionVertexID, set[ExecutionAttemptID]] = {}
        self._aborted: Counter[str] = Counter()

    def see(self, event: ev.Event) -> None:
        """Take an event."""
        match event:
            case ev.AttemptDeployed(attempt=attempt):
                self._running.setdefault(attempt.vertex_id, set()).add(attempt)
            case ev.AttemptFinished(attempt=attempt):
                self._abort(self._running.pop(attempt.vertex_id, set()) - {attempt})
            case ev.AttemptFailed(attempt=attempt) | ev.AttemptCanceled(attempt=attempt):
                if attempt in (running := self._running.get(attempt.vertex_id, set())):
                    running.discard(attempt)
                    self._abort({attempt})
            case ev.DriverLost():
                for running in self._running.values():
                    self._abort(running)
                self._running.clear()
            case _:
                pass

    def of(self, vertex: str) -> int:
        """Of a job vertex."""
        return self._aborted[vertex]

    def _abort(self, attempts: set[ExecutionAttemptID]) -> None:
        self._aborted.update(attempt.vertex_id.vertex for attempt in attempts)
