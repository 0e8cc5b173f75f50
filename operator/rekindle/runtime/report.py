"""The report of a run, folded from its journal: the same whoever asks, during the run or long after.

Its form is `report.schema.json` beside this file; docs/report.md explains it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rekindle.api.connector_report import CommitState
from rekindle.core import events as ev
from rekindle.core.aborted_attempts import AbortedAttempts
from rekindle.core.ranges import count
from rekindle.runtime.journal import Record, read_run
from rekindle.runtime.manifest import combine_digests
from rekindle.runtime.store import Store

REPORT_FORMAT = 1


@dataclass
class _Stage:
    """What is known of one stage. Maps are keyed by partition, attempts are (partition, number).

    Attributes:
        running: [attempt -> when it started]
        again: attempts that are neither a partition's first nor copies.
        seconds: of the attempt that made the partition, for partitions that are there.
        copy_seconds: of all copies that have ended; `rerun_seconds` of what was made again.
        stored_bytes: of all partitions ever stored, those that were replaced included.
    """

    name: str
    partitions: int
    exchange: str
    sink: str | None
    attempts: Counter[int] = field(default_factory=Counter)
    copies: set[tuple[int, int]] = field(default_factory=set)
    won: set[int] = field(default_factory=set)
    failed: int = 0
    outputs: dict[int, ev.PartitionOutput] = field(default_factory=dict)
    running: dict[tuple[int, int], float] = field(default_factory=dict)
    again: set[tuple[int, int]] = field(default_factory=set)
    seconds: dict[int, float] = field(default_factory=dict)
    copy_seconds: float = 0.0
    rerun_seconds: float = 0.0
    stored_bytes: int = 0
    map_tasks: int = 0
    planned: int = 0
    task_seconds: float = 0.0
    started: float | None = None
    ended: float | None = None

    def report(self) -> dict[str, Any]:
        complete = len(self.outputs) == self.partitions
        outputs = [self.outputs[partition] for partition in sorted(self.outputs)]
        return {
            "name": self.name,
            "partitions": self.partitions,
            "exchange": self.exchange,
            "sink": self.sink,
            "state": "finished" if complete else "running" if self.started else "waiting",
            "rows": sum(one.rows for one in outputs) if complete else None,
            "bytes": sum(one.bytes for one in outputs) if complete else None,
            "digest": combine_digests([one.digest for one in outputs]) if complete else None,
            "seconds": round(self.ended - self.started, 3) if complete and self.ended and self.started else None,
            "taskSeconds": round(self.task_seconds, 3),
            "attempts": sum(self.attempts.values()),
            "mapTasks": self.map_tasks,
            "rerun": self.rerun,
            "failed": self.failed,
            "speculativeLaunched": len(self.copies),
            "speculativeEffective": len(self.won),
        }

    def deploy(self, partition: int, number: int, started_at: float) -> None:
        """An attempt has started."""
        attempt = (partition, number)
        if self.attempts[partition] and attempt not in self.copies:
            self.again.add(attempt)
        self.attempts[partition] += 1
        self.running[attempt] = started_at

    def finish(self, partition: int, number: int, now: float, output: ev.PartitionOutput) -> None:
        """An attempt has made its partition: its siblings have no more to do."""
        self.outputs[partition] = output
        self.stored_bytes += output.bytes
        self.seconds[partition] = max(0.0, now - self.running.get((partition, number), now))
        if (partition, number) in self.copies:
            self.won.add(partition)
        self.end(now, partition)

    def end(self, now: float, partition: int, number: int | None = None) -> None:
        """An attempt has ended, or all of a partition."""
        for attempt in [one for one in self.running if one[0] == partition and number in (None, one[1])]:
            seconds = max(0.0, now - self.running.pop(attempt))
            if attempt in self.copies:
                self.copy_seconds += seconds
            elif attempt in self.again:
                self.rerun_seconds += seconds

    def reset(self, now: float, partition: int) -> None:
        """A partition must be made again."""
        self.end(now, partition)
        self.outputs.pop(partition, None)
        self.seconds.pop(partition, None)
        self.won.discard(partition)

    def reset_all(self, now: float) -> None:
        """All of it must be made again, or is of no more use."""
        for partition in {*self.outputs, *(one for one, _ in self.running)}:
            self.reset(now, partition)

    @property
    def rerun(self) -> int:
        """Attempts beyond the first of each partition that were no copies."""
        copies = Counter(partition for partition, _ in self.copies)
        return sum(max(0, attempts - copies[partition] - 1) for partition, attempts in self.attempts.items())


@dataclass
class _Source:
    """A source that is read by splits. `settled`: [subtask -> how many splits it reads, for good]; `reread` and
    `returned`: as of `runtime.sources.SourceRead`, of all drivers."""

    stage: str
    id: str
    subtasks: int
    splits: int
    settled: dict[int, int] = field(default_factory=dict)
    reread: int = 0
    returned: int = 0

    def report(self, stage: _Stage | None) -> dict[str, Any]:
        """`stage`: the one that it is, where that is stored."""
        return {
            "stage": self.stage,
            "subtasks": self.subtasks,
            "splits": self.splits,
            "settled": sum(self.settled.values()),
            "most": max(self.settled.values(), default=0),
            "fewest": min(self.settled.values(), default=0),
            "noMoreSplits": len(self.settled),
            "reread": self.reread,
            "returned": self.returned,
            "rows": stage.report()["rows"] if stage is not None else None,
        }


@dataclass
class _Sink:
    """A sink, as the last driver has opened it; `commit`: how far it is, and `why` no further."""

    stage: str
    kind: str
    mode: str
    partitions: int
    concurrent_attempts: bool
    reason: str
    commit: CommitState = CommitState.PENDING
    why: str = ""

    def report(self, written: int, aborted: int) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "kind": self.kind,
            "mode": self.mode,
            "concurrentAttempts": self.concurrent_attempts,
            "reason": self.reason,
            "partitions": self.partitions,
            "written": written,
            "aborted": aborted,
            "state": self.commit.value,
            "commitReason": self.why,
        }


class ReportFold:
    """Folds a journal's records, in order, into a report; `report` may be asked at any time."""

    def __init__(self) -> None:
        self.stages: dict[str, _Stage] = {}
        self._gone: dict[str, _Stage] = {}  # what an edit has taken out, and another may bring back
        self._head: dict[str, Any] = {"application": "", "run": 0, "state": "running"}
        self._first: float | None = None
        self._last: float = 0.0
        self._drivers = 0
        self._executors_lost = 0
        self._task_seconds = 0.0
        self._slow = 0
        self._error: Any = None
        self._sources: dict[str, _Source] = {}
        self._sinks: dict[str, _Sink] = {}
        self._loops: dict[str, dict[str, Any]] = {}
        self._aborted = AbortedAttempts()
        self._lists: dict[str, list[dict[str, Any]]] = {
            "blocks": [],
            "blocksRefused": [],
            "executorsGivenUp": [],
            "recoveries": [],
            "losses": [],
            "sinks": [],
        }

    def add(self, record: Record) -> None:
        """Take one record. Records of kinds or names it does not know are passed over."""
        self._first = record["t"] if self._first is None else self._first
        self._last = record["t"]
        if record["kind"] == "event":
            self._event(ev.from_record(record["event"]), record["t"])
        elif record["kind"] == "action":
            self._action(record)
        elif record["kind"] == "note":
            self._note(record)
            self._source_note(record)
            self._sink_note(record)
            if record["note"] == "LoopProgressed":
                self._loops[record["stage"]] = _pick(record, "stage", "ended", "scopes")

    def report(self) -> dict[str, Any]:
        """The report as JSON types."""
        stages = [stage.report() for stage in self.stages.values()]
        known = [*self.stages.values(), *self._gone.values()]
        return {
            "format": REPORT_FORMAT,
            **self._head,
            "seconds": round(self._last - (self._first or self._last), 3),
            "taskSeconds": round(self._task_seconds, 3),
            "drivers": self._drivers,
            "executorsLost": self._executors_lost,
            "tasks": {
                "run": sum(sum(one.attempts.values()) + one.map_tasks for one in known),
                "rerun": sum(one.rerun for one in known),
                "failed": sum(one.failed for one in known),
            },
            "speculation": {
                "slow": self._slow,
                "launched": sum(len(one.copies) for one in known),
                "effective": sum(len(one.won) for one in known),
            },
            "saved": {"taskSeconds": round(sum(self._saved().values()), 3)},
            "spent": {
                "copyTaskSeconds": round(sum(one.copy_seconds for one in known), 3),
                "rerunTaskSeconds": round(sum(one.rerun_seconds for one in known), 3),
                "storedBytes": sum(one.stored_bytes for one in known),
            },
            **self._lists,
            "sources": [source.report(self.stages.get(name)) for name, source in self._sources.items()],
            "commits": [self._commit(sink) for name, sink in self._sinks.items() if name in self.stages],
            "loops": list(self._loops.values()),
            "stages": stages,
            "error": self._error,
        }

    def _commit(self, sink: _Sink) -> dict[str, Any]:
        return sink.report(len(self.stages[sink.stage].outputs), self._aborted.of(sink.stage))

    def _saved(self) -> dict[float, float]:
        """[moment -> task-seconds of what stayed]: restarts that are told at one moment are one recovery, of which the
        last says what is left."""
        return {one["t"]: one["savedTaskSeconds"] for one in self._lists["recoveries"]}

    def _event(self, event: ev.Event, now: float) -> None:
        if isinstance(event, ev.SlowTasksFound):
            self._slow = event.num_vertices
        self._aborted.see(event)
        attempt = getattr(event, "attempt", None)
        stage = self.stages.get(attempt.vertex_id.vertex) if attempt else None
        if attempt is None or stage is None:
            return
        partition = attempt.vertex_id.subtask
        match event:
            case ev.AttemptDeployed(started_at=started_at):
                stage.deploy(partition, attempt.attempt, started_at)
            case ev.AttemptFinished(finished_at=finished_at, output=output):
                stage.finish(partition, attempt.attempt, finished_at, output)
            case ev.AttemptFailed():
                stage.failed += 1
                stage.end(now, partition, attempt.attempt)
            case ev.AttemptCanceled():
                stage.end(now, partition, attempt.attempt)
            case _:
                pass

    def _action(self, record: Record) -> None:
        match record["action"]:
            case "Block":
                self._lists["blocks"].append(_pick(record, "t", "node", "until", "cause"))
            case "BlockRefused":
                refused = self._lists["blocksRefused"]
                if record["node"] not in {one["node"] for one in refused}:  # with another reason, or to a person
                    refused.append(_pick(record, "t", "node", "reason"))
            case "Restart":
                self._restarted(record)
            case "Speculate":
                for stage, partition, attempt in record["attempts"]:
                    self.stages[stage].copies.add((partition, attempt))
            case _:
                pass

    def _restarted(self, record: Record) -> None:
        rerun = Counter(name for name, _ in record["vertices"])
        for name, partition in record["vertices"]:
            if name in self.stages:
                self.stages[name].reset(record["t"], partition)
        saved = sum(sum(stage.seconds.values()) for stage in self.stages.values())
        self._lists["recoveries"].append(
            {
                "t": record["t"],
                "cause": record["cause"],
                "restarted": dict(rerun),
                "reused": record["reused"],
                "savedTaskSeconds": round(saved, 3),
            }
        )

    def _note(self, record: Record) -> None:
        match record["note"]:
            case "RunStarted" | "PipelineChanged":
                self._has_stages(record)
            case "DriverStarted":
                self._drivers += 1
                for stage in self.stages.values():
                    stage.running.clear()  # nobody has seen their end
                self._head["state"], self._error = "running", None
            case "ExecutorsLost":
                self._executors_lost += len(record["executors"])
            case "ExecutorGivenUp":
                self._lists["executorsGivenUp"].append(_pick(record, "t", "executor", "node", "stage", "how", "reason"))
            case "PartitionsLost":
                self._lists["losses"].append(_pick(record, "t", "stage", "partitions", "reason"))
            case "SinkPublished":
                self._lists["sinks"].append(_pick(record, "stage", "path", "files"))
            case "StageStarted" | "StageTasks" | "StageFinished":
                self._stage_note(self.stages[record["stage"]], record)
            case "RunFinished" | "RunFailed" | "RunInterrupted":
                self._slow = 0
                self._head["state"] = record["note"].removeprefix("Run").lower()
                self._error = record.get("error")
            case _:
                pass

    def _has_stages(self, record: Record) -> None:
        """The stages from now on: of those that were there before, what is known stays known."""
        self._head.update(application=record["application"], run=record["run"])
        for name in record.get("anew", ()):
            if name in self.stages:
                self.stages[name].reset_all(record["t"])
        before, self.stages = {**self._gone, **self.stages}, {}
        for raw in record["stages"]:
            if raw["exchange"] == "blocking":
                stage = before.pop(raw["name"], None) or _Stage(raw["name"], 0, "", None)
                stage.partitions, stage.exchange, stage.sink = raw["partitions"], raw["exchange"], raw["sink"]
                self.stages[stage.name] = stage
        for stage in before.values():
            stage.reset_all(record["t"])
        self._gone = before

    def _source_note(self, record: Record) -> None:
        """Each driver opens a source; after an edit it is another."""
        match record:
            case {"note": "SplitsSettled", "stage": stage, "subtask": subtask, "splits": splits}:
                self._sources[stage].settled[subtask] = count(splits)
            case {"note": "SourceRead", "stage": stage, "reread": reread, "returned": returned}:
                self._sources[stage].reread += reread
                self._sources[stage].returned += returned
            case {"note": "SourceOpened", "stage": stage, "source": source}:
                if stage not in self._sources or self._sources[stage].id != source:
                    self._sources[stage] = _Source(stage, source, record["subtasks"], record["splits"])

    def _sink_note(self, record: Record) -> None:
        """Each driver opens its sinks. What was published stays so; what was begun or not committed it does again."""
        if record["note"] == "SinkOpened":
            before = self._sinks.get(record["stage"])
            known = _pick(record, "stage", "mode", "partitions", "concurrent_attempts", "reason")
            self._sinks[record["stage"]] = sink = _Sink(kind=record["sink"], **known)
            if before is not None and before.commit is CommitState.COMMITTED:
                sink.commit = before.commit
        elif (known_sink := self._sinks.get(record.get("stage", ""))) is not None:
            match record["note"]:
                case "SinkPublishing":
                    known_sink.commit, known_sink.why = CommitState.COMMITTING, ""
                case "SinkPublished":
                    known_sink.commit, known_sink.why = CommitState.COMMITTED, ""
                case "SinkNotCommitted":
                    known_sink.commit, known_sink.why = CommitState(record["state"]), record["reason"]
                case _:
                    pass

    def _stage_note(self, stage: _Stage, record: Record) -> None:
        match record["note"]:
            case "StageStarted":
                stage.started = stage.started or record["t"]
            case "StageFinished":
                stage.ended = record["t"]
            case "StageTasks":
                stage.map_tasks += record["map_tasks"]
                stage.task_seconds += record["task_seconds"]
                self._task_seconds += record["task_seconds"]


def build_report(store: Store, run: int | None = None) -> dict[str, Any]:
    """The report of a run in a store (the newest by default).

    Raises:
        StoreRefused: the journal is damaged.
    """
    fold = ReportFold()
    for record in read_run(store, run):
        fold.add(record)
    return fold.report()


def _pick(record: Record, *names: str) -> dict[str, Any]:
    return {name: record[name] for name in names}
