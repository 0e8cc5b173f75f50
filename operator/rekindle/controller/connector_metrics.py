"""Prometheus metrics of sources and sinks: of what job masters told last, when somebody asks.

Labels are the application, the name of a source or sink, and words of ours. A job master tells of fifty of each at
most, and nothing is kept of an application that has ended.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from rekindle.api.application_status import SinkStatus, SourceStatus
from rekindle.api.connector_report import CommitState
from rekindle.controller.recovery.job_facts import JobFacts
from rekindle.controller.resources import Key

_Family = GaugeMetricFamily | CounterMetricFamily | InfoMetricFamily


class ConnectorMetrics(Collector):
    """Of all applications whose driver has told of a job."""

    def __init__(self) -> None:
        self.jobs: Callable[[], Mapping[Key, JobFacts]] = dict

    def collect(self) -> Iterator[_Family]:
        jobs = list(self.jobs().items())
        yield from _of_sources([(key, one) for key, facts in jobs for one in facts.sources])
        yield from _of_sinks([(key, one) for key, facts in jobs for one in facts.sinks])


def _of_sources(sources: Iterable[tuple[Key, SourceStatus]]) -> Iterator[_Family]:
    labels = ["namespace", "application", "source"]
    info = InfoMetricFamily(
        "rekindle_source", "What it is, and whether two attempts may read at a time.", labels=labels
    )
    splits = GaugeMetricFamily(
        "rekindle_source_splits",
        "Splits: unassigned (unassignedSplits), assigned to a subtask that has not read them, or finished.",
        labels=[*labels, "state"],
    )
    subtasks = GaugeMetricFamily(
        "rekindle_source_subtasks",
        "Subtasks: those that get no_more_splits, or may get more.",
        labels=[*labels, "state"],
    )
    readers = GaugeMetricFamily("rekindle_source_readers", "Attempts that are registered.", labels=labels)
    most = GaugeMetricFamily("rekindle_source_most_splits", "Splits of the subtask with the most.", labels=labels)
    fewest = GaugeMetricFamily("rekindle_source_fewest_splits", "Splits of that with the fewest.", labels=labels)
    records = GaugeMetricFamily("rekindle_source_records", "Rows that are stored of it (numRecordsIn).", labels=labels)
    reread = CounterMetricFamily(
        "rekindle_source_reread_splits", "Splits that were read by another attempt than their first.", labels=labels
    )
    returned = CounterMetricFamily(
        "rekindle_source_returned_splits", "Splits given back, as their subtask began anew.", labels=labels
    )
    for key, one in sources:
        of = [key.namespace, key.name, one.name]
        info.add_metric(of, {"kind": one.kind, "concurrent_attempts": str(one.concurrent_attempts).lower()})
        splits.add_metric([*of, "unassigned"], max(0, one.num_splits - one.num_assigned_splits))
        splits.add_metric([*of, "assigned"], max(0, one.num_assigned_splits - one.num_finished_splits))
        splits.add_metric([*of, "finished"], one.num_finished_splits)
        subtasks.add_metric([*of, "no_more_splits"], one.no_more_splits)
        subtasks.add_metric([*of, "may_get_more"], max(0, one.subtasks - one.no_more_splits))
        readers.add_metric(of, one.registered_readers)
        reread.add_metric(of, one.num_reread_splits)
        returned.add_metric(of, one.num_returned_splits)
        if one.most is not None and one.fewest is not None:
            most.add_metric(of, one.most.splits)
            fewest.add_metric(of, one.fewest.splits)
        if one.num_records_in is not None:
            records.add_metric(of, one.num_records_in)
    yield from (info, splits, subtasks, readers, most, fewest, records, reread, returned)


def _of_sinks(sinks: Iterable[tuple[Key, SinkStatus]]) -> Iterator[_Family]:
    labels = ["namespace", "application", "sink"]
    info = InfoMetricFamily("rekindle_sink", "What it is, and whether two attempts may write at a time.", labels=labels)
    partitions = GaugeMetricFamily(
        "rekindle_sink_partitions", "Its partitions: written, or missing.", labels=[*labels, "state"]
    )
    records = GaugeMetricFamily("rekindle_sink_records", "Rows of those (numRecordsSend).", labels=labels)
    aborted = CounterMetricFamily(
        "rekindle_sink_aborted_attempts", "Attempts that have made no partition of it.", labels=labels
    )
    commit = GaugeMetricFamily(
        "rekindle_sink_commit", "1 for the state that its commit is in.", labels=[*labels, "state"]
    )
    for key, one in sinks:
        of = [key.namespace, key.name, one.name]
        may = str(one.concurrent_attempts).lower()
        info.add_metric(of, {"kind": one.kind, "mode": one.mode, "concurrent_attempts": may})
        partitions.add_metric([*of, "written"], one.num_written_partitions)
        partitions.add_metric([*of, "missing"], max(0, one.num_partitions - one.num_written_partitions))
        records.add_metric(of, one.num_records_send)
        aborted.add_metric(of, one.num_aborted_attempts)
        for state in CommitState:
            commit.add_metric([*of, state.value.lower()], one.commit == state)
    yield from (info, partitions, records, aborted, commit)
