"""Where a run stands, as its journal tells."""

from dataclasses import dataclass
from typing import Any, Protocol

from rekindle.runtime.journal import JournalFollower
from rekindle.runtime.report import ReportFold
from rekindle.runtime.store import Store
from rekindle.runtime.story import describe

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StageProgress:
    """One stage. `done` and `partitions` are numbers of result partitions; `copies` were launched."""

    name: str
    done: int
    partitions: int
    copies: int
    started: bool

    @property
    def finished(self) -> bool:
        return self.done >= self.partitions


class Progress:
    """The run so far. Feed it the journal's records in order."""

    def __init__(self) -> None:
        self._fold = ReportFold()
        self._started: set[str] = set()
        self._blocked: dict[str, float] = {}
        self.drivers = self.recoveries = 0

    def add(self, record: Record, *, new: bool = True) -> None:
        """Take one record. One that is not `new` was written before this launch."""
        if record.get("note") == "RunStarted":
            self._fold, self._started = ReportFold(), set()
        self._fold.add(record)
        match record.get("note") or record.get("action"):
            case "StageStarted" if new:
                self._started.add(record["stage"])
            case "DriverStarted" if new:
                self.drivers += 1
            case "Restart" if new:
                self.recoveries += 1
            case "Block":
                self._blocked[record["node"]] = record["until"]
            case "Unblock":
                self._blocked.pop(record["node"], None)

    @property
    def stages(self) -> list[StageProgress]:
        """All stages with stored results, in topological order."""
        return [
            StageProgress(
                stage.name,
                len(stage.outputs),
                stage.partitions,
                len(stage.copies),
                stage.name in self._started,
            )
            for stage in self._fold.stages.values()
        ]

    def stage(self, name: str) -> StageProgress | None:
        """One of them."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def fraction(self, stage: str | None = None) -> float:
        """The share of partitions that are finished, of one stage or of all; 0 while nothing is known."""
        chosen = [one for one in self.stages if stage in (None, one.name)]
        total = sum(one.partitions for one in chosen)
        return sum(one.done for one in chosen) / total if total else 0.0

    @property
    def blocked(self) -> list[str]:
        """Nodes that are blocked now."""
        return sorted(self._blocked)

    @property
    def begun(self) -> bool:
        """Whether any stage has started in this launch."""
        return bool(self._started)


_EVERY_BUCKET = 1.0
"""Seconds between two looks into a store that is a bucket: each look is a request."""


class Follow:
    """Goes along with a run (`Companion`): reads its journal into `progress` and shows it."""

    def __init__(self, store: Store, progress: Progress, screen: "ProgressScreen") -> None:
        """Takes what the newest unfinished run has already; a finished one is passed over."""
        self._follower, self._progress, self._screen = JournalFollower(store), progress, screen
        self._every, self._next = 0.0 if store.folder else _EVERY_BUCKET, 0.0
        earlier = self._follower.poll()
        if not any(record.get("note") == "RunFinished" for record in earlier):
            for record in earlier:
                progress.add(record, new=False)

    def step(self, now: float, driver: object) -> None:
        """Take and tell what is new."""
        if now < self._next:
            return
        self._next = now + self._every
        self.finish()

    def finish(self) -> None:
        """Take and tell all that is there."""
        for record in self._follower.poll():
            self._progress.add(record)
            if (text := describe(record)) is not None:
                self._screen.line(text)
        self._screen.update(self._progress)


class ProgressScreen(Protocol):
    """A screen that can show progress."""

    def line(self, text: str) -> None:
        """A line of the launcher."""

    def update(self, progress: Progress) -> None:
        """Show where the run stands."""
