"""What a driver tells of its sources and sinks, of a real pipeline over a real core."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from rekindle.api.connector_report import CommitState
from rekindle.api.settings import RekindleSettings
from rekindle.core import events as ev
from rekindle.core.aborted_attempts import AbortedAttempts
from rekindle.core.graph import ExecutionGraph
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.core.split_progress import SplitCounts, SubtaskSplits
from rekindle.pipeline import DataSourceSink, FileSink, Pipeline, SparkSink
from rekindle.pipeline.sinks import Sink
from rekindle.pipeline.translation import to_job_graph
from rekindle.runtime.connector_facts import sink_facts, source_facts

COUNTS = SplitCounts(2, 9, 5, 4, 3, 1, 2, 1, SubtaskSplits(1, 4), SubtaskSplits(0, 1))


class Letters(DataSource):
    @classmethod
    def name(cls) -> str:
        return "letters"

    def reader(self, schema: Any) -> DataSourceReader:
        return LettersReader()


class LettersReader(DataSourceReader):
    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        yield ("a",)


class Table(DataSource):
    supports_concurrent_execution_attempts = True

    @classmethod
    def name(cls) -> str:
        return "table"

    def writer(self, schema: Any, overwrite: bool) -> Any:
        raise AssertionError("nobody writes here")


def state_of(options: dict[str, str], exchange: str = "blocking", **read: Any) -> Any:
    """A run of two subtasks that read, and three sinks, or one where nothing is stored between."""
    pipeline = Pipeline("ends", default_partitions=2)
    partitions = 2 if exchange == "blocking" else None
    pipeline.read("letters", Letters, exchange=exchange, partitions=partitions, **read)
    sinks: dict[str, Sink] = {
        "files": FileSink("/out", mode="overwrite"),
        "lake": SparkSink("delta", options={"path": "/lake"}),
        "rows": DataSourceSink(Table),
    }
    for name, sink in list(sinks.items())[: 3 if exchange == "blocking" else 1]:
        pipeline.sink(sink, pointwise=exchange == "blocking", name=name)(lambda letters: letters)
    settings = RekindleSettings.from_spark_conf({f"spark.rekindle.{key}": one for key, one in options.items()})
    graph, how = pipeline.build(), settings.to_core()
    core = ExecutionGraph(
        to_job_graph(graph, how.speculation),
        speculation=how.speculation,
        failover=how.failover,
        blocklist=how.blocklist,
    )
    return SimpleNamespace(graph=graph, settings=settings, core=core, commits={}, aborted=AbortedAttempts())


def see(state: Any, *events: ev.Event) -> None:
    for event in events:
        state.core.handle(event, 1.0)
        state.aborted.see(event)


def attempt(stage: str, subtask: int, number: int = 0) -> ExecutionAttemptID:
    return ExecutionAttemptID(ExecutionVertexID(stage, subtask), number)


def made(stage: str, subtask: int, rows: int) -> list[ev.Event]:
    one = attempt(stage, subtask)
    output = ev.PartitionOutput(rows, 1, None)
    return [ev.AttemptDeployed(one, "n1", 0.0), ev.AttemptFinished(one, 1.0, output)]


def test_a_source_is_told_with_its_counts_and_the_rows_that_are_stored():
    state = state_of({"speculation.enabled": "true"})
    see(state, ev.JobSubmitted(), *made("letters", 1, 30))
    (source,) = source_facts(state, {"letters": COUNTS, "gone": COUNTS})
    assert (source.name, source.kind, source.records) == ("letters", "letters", 30)
    counts = (source.subtasks, source.splits, source.assigned, source.finished, source.reread, source.returned)
    assert counts == (2, 9, 5, 4, 3, 1)
    assert (source.readers, source.no_more_splits) == (2, 1)
    assert source.most is not None
    assert source.fewest is not None
    assert [(one.subtask, one.splits) for one in (source.most, source.fewest)] == [(1, 4), (0, 1)]
    assert (source.concurrent_attempts, source.reason) == (True, "")


@pytest.mark.parametrize(
    ("options", "read", "reason"),
    [
        ({"speculation.sourceEnabled": "false"}, {}, "it is a source and speculation.sourceEnabled is false"),
        ({}, {"speculation": False}, "the stage says speculation=False"),
    ],
    ids=["all sources", "this one"],
)
def test_why_nobody_may_read_beside_another_is_told(options, read, reason):
    (source,) = source_facts(state_of(options, **read), {"letters": COUNTS})
    assert (source.concurrent_attempts, source.reason) == (False, reason)


def test_rows_of_a_source_that_is_not_stored_are_not_known():
    (source,) = source_facts(state_of({}, "pipelined"), {"letters": COUNTS})
    assert source.records is None


def test_sinks_are_told_with_what_is_written_and_why_nobody_may_write_beside_another():
    state = state_of({"speculation.enabled": "true"})
    files, lake, rows = sink_facts(state)
    assert [(one.name, one.kind, one.mode) for one in (files, lake, rows)] == [
        ("files", "FileSink", "overwrite"),
        ("lake", "SparkSink", "append"),
        ("rows", "DataSourceSink", "append"),
    ]
    off = (False, "it is a sink and speculation.sinkEnabled is false")
    assert {(one.concurrent_attempts, one.reason) for one in (files, lake, rows)} == {off}
    on = state_of({"speculation.enabled": "true", "speculation.sinkEnabled": "true"})
    assert [one.concurrent_attempts for one in sink_facts(on)] == [True, True, True]


def test_how_far_a_sink_is():
    state = state_of({})
    see(state, ev.JobSubmitted(), *made("letters", 0, 5), *made("letters", 1, 2))
    see(state, *made("files", 0, 5), ev.AttemptDeployed(attempt("files", 1), "n1", 0.0))
    see(state, ev.AttemptFailed(attempt("files", 1), ev.FailureCause(ev.FailureKind.TASK, "x")))
    state.commits["lake"] = (CommitState.REFUSED, "x" * 10_000)
    files, lake, _ = sink_facts(state)
    assert (files.partitions, files.written, files.records, files.aborted) == (2, 1, 5, 1)
    assert (files.commit, files.commit_reason) == ("Pending", "")
    assert (lake.commit, lake.commit_reason) == ("Refused", "x" * 500)
