"""The operator's Prometheus metrics, in a registry of their own."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from rekindle.api.application_status import RecoverySummary, SpeculationStatus
from rekindle.controller.connector_metrics import ConnectorMetrics
from rekindle.controller.recovery.job_facts import JobFacts
from rekindle.controller.resources import Key

Tally = Callable[[], Mapping[tuple[str, str], int]]
"""Namespace and state to a number of applications."""


class _Applications(Collector):
    """Counted when somebody asks."""

    def __init__(self) -> None:
        self.tally: Tally = dict

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily("rekindle_applications", "Applications by state.", labels=["namespace", "state"])
        for (namespace, state), count in self.tally().items():
            family.add_metric([namespace, state], count)
        yield family


class _Speculation(Collector):
    """Of each application that is followed, when somebody asks."""

    def __init__(self) -> None:
        self.facts: Callable[[], Mapping[Key, SpeculationStatus]] = dict

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        labels = ["namespace", "application"]
        slow = GaugeMetricFamily(
            "rekindle_slow_execution_vertices", "Tasks that are slow now (numSlowExecutionVertices).", labels=labels
        )
        duplicates = GaugeMetricFamily("rekindle_duplicate_executors", "Executors made for slow ones.", labels=labels)
        effective = CounterMetricFamily(
            "rekindle_effective_speculative_executions", "Tasks that a copy finished first.", labels=labels
        )
        wasted = CounterMetricFamily(
            "rekindle_wasted_task_seconds", "Seconds of attempts beside one that finished first.", labels=labels
        )
        for key, facts in list(self.facts().items()):
            effective.add_metric([key.namespace, key.name], facts.num_effective_speculative_executions)
            wasted.add_metric([key.namespace, key.name], facts.wasted_task_seconds)
            slow.add_metric([key.namespace, key.name], facts.num_slow_execution_vertices)
            duplicates.add_metric([key.namespace, key.name], facts.duplicate_executors)
        yield from (slow, duplicates, effective, wasted)


class Metrics:
    """What the operator counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._applications = _Applications()
        self._speculation = _Speculation()
        self.registry.register(self._applications)
        self.registry.register(self._speculation)
        self._connectors = ConnectorMetrics()
        self.registry.register(self._connectors)
        self.transitions = Counter(
            "rekindle_application_transitions",
            "Changes of state: the state entered and why.",
            ["namespace", "state", "reason"],
            registry=self.registry,
        )
        self.submissions = Counter("rekindle_submissions", "Submissions by result.", ["result"], registry=self.registry)
        self.submission_seconds = Histogram(
            "rekindle_submission_seconds",
            "Seconds to make all objects of an attempt.",
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=self.registry,
        )
        self.events_dropped = Counter(
            "rekindle_events_dropped", "Events that were not sent: too many, or refused.", registry=self.registry
        )
        self.looks = Counter(
            "rekindle_reconciles", "Looks at an application by result.", ["result"], registry=self.registry
        )
        self.look_seconds = Histogram(
            "rekindle_reconcile_seconds", "Seconds of a look at an application.", registry=self.registry
        )
        self._queue_depth = Gauge("rekindle_queue_depth", "Applications waiting for a look.", registry=self.registry)
        self.blocked_nodes = Gauge("rekindle_blocked_nodes", "Nodes that are blocked now.", registry=self.registry)
        self.node_block_changes = Counter(
            "rekindle_node_block_changes",
            "What became of NodeBlocks: in force (NodeBlocked), or not and why.",
            ["reason"],
            registry=self.registry,
        )
        self.speculation_steps = Counter(
            "rekindle_speculation_steps",
            "What was done to executors for slow nodes.",
            ["reason"],
            registry=self.registry,
        )
        self.exchanges = Counter(
            "rekindle_exchanges",
            "Requests to job masters: answered, unusable, or not_served where nobody answers in time, or is busy.",
            ["result"],
            registry=self.registry,
        )
        self.recoveries = Counter(
            "rekindle_recoveries",
            "Drivers that went on where a lost one was, and whether it cost what was planned.",
            ["namespace", "as_planned"],
            registry=self.registry,
        )
        self.recovered_partitions = Counter(
            "rekindle_recovered_partitions",
            "Result partitions at such a loss: reused, or rerun.",
            ["namespace", "what"],
            registry=self.registry,
        )
        self.saved_task_seconds = Counter(
            "rekindle_saved_task_seconds",
            "Seconds of tasks that need not run again after such a loss, by its plan.",
            ["namespace"],
            registry=self.registry,
        )
        self.recovery_seconds = Histogram(
            "rekindle_recovery_seconds",
            "Seconds from the loss of a driver until it was noticed, the next one ran, and its first task began.",
            ["namespace", "phase"],
            buckets=(1, 2, 5, 10, 20, 30, 60, 120, 300, 600),
            registry=self.registry,
        )
        self.leader = Gauge("rekindle_leader", "1 while this operator holds the Lease.", registry=self.registry)

    def watch(
        self,
        tally: Tally = dict,
        queue_depth: Callable[[], float] = lambda: 0,
        speculation: Callable[[], Mapping[Key, SpeculationStatus]] = dict,
        jobs: Callable[[], Mapping[Key, JobFacts]] = dict,
    ) -> None:
        """Ask these at each scrape; without arguments: there is nothing to count any more."""
        self._speculation.facts = speculation
        self._connectors.jobs = jobs
        self._applications.tally = tally
        self._queue_depth.set_function(queue_depth)

    def count_recovery(self, namespace: str, before: RecoverySummary | None, after: RecoverySummary | None) -> None:
        """Of a status that has become another one: once its driver has told what it did, and once a task has begun."""
        if after is None or before is None or after.attempt != before.attempt:
            return
        if after.as_planned is not None and before.as_planned is None:
            self.recoveries.labels(namespace, str(after.as_planned).lower()).inc()
            self.recovered_partitions.labels(namespace, "reused").inc(after.reused_partitions)
            self.recovered_partitions.labels(namespace, "rerun").inc(after.restarted_vertices)
            self.saved_task_seconds.labels(namespace).inc(after.saved_task_seconds)
        if after.first_task_after_seconds is not None and before.first_task_after_seconds is None:
            for phase, seconds in (
                ("noticed", after.noticed_after_seconds),
                ("driver", after.driver_after_seconds),
                ("first_task", after.first_task_after_seconds),
            ):
                if seconds is not None:
                    self.recovery_seconds.labels(namespace, phase).observe(seconds)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)
