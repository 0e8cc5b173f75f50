"""Which attempts of the stages that were seen are slow by the application's detector, and what speaks against nodes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from rekindle.api.settings import CoreOptions
from rekindle.controller.speculation.cpu import Suspect
from rekindle.controller.speculation.spark_rest import Stage
from rekindle.controller.speculation.stages import NOWHERE, SeenStage, SeenStages, work_of
from rekindle.core.ids import ExecutionAttemptID
from rekindle.core.node_aware import NodeAwareSlowTaskDetector
from rekindle.core.options import NodeAwareOptions
from rekindle.core.skew import Blame, Work
from rekindle.core.slow_tasks import ExecutionTimeBasedSlowTaskDetector, Slow
from rekindle.core.witness import Case, Says, Statement

_TOLD_BY_NOW = 120.0
"""Seconds after which a task that has told of no input has read none: Spark has executors tell more often than that
(spark.network.timeout)."""


@dataclass(frozen=True, slots=True)
class SlowTask:
    """One slow attempt.

    Attributes:
        copies: how many more attempts its task may have.
        is_proven: that its node makes it slow is more than a guess from one time.
    """

    task: str
    executor: str
    node: str
    evidence: str
    blame: Blame
    copies: int
    is_proven: bool = False


class Detection:
    """By the options of one application."""

    def __init__(self, options: CoreOptions) -> None:
        self._options = options
        self.by_node = NodeAwareSlowTaskDetector(options.node_aware) if options.node_aware is not None else None
        self.bound = options.slow_tasks.baseline_lower_bound
        """Seconds below which no task is slow."""

        if options.node_aware is not None:
            self.bound = options.node_aware.lower_bound

    @property
    def interval(self) -> float:
        """Seconds between two looks at the soonest."""
        return self._options.slow_tasks.check_interval

    def gate(self, stage: Stage) -> int:
        """How many tasks of the stage must have finished before one can be slow."""
        ratio = self._options.slow_tasks.baseline_ratio
        return 1 if self.by_node is not None else math.ceil(stage.tasks * ratio)

    def find(self, seen: Sequence[SeenStage], now: float) -> list[Slow]:
        """The slow attempts at `now`."""
        if self.by_node is not None:
            return list(self.by_node.find_slow(SeenStages(seen), now).slow)
        return [slow for one in seen for slow in self.by_time(one).find_slow(SeenStages([one]), now).slow]

    def suspects(self, seen: Sequence[SeenStage], found: Sequence[Slow], now: float) -> list[tuple[SlowTask, Suspect]]:
        """Each slow attempt, by what it has read alone, and what a witness is to be asked of it."""
        by_vertex = {one.name: one for one in seen}
        mild = {name: self._mild_below(by_vertex[name]) for name in {vertex_id.vertex for vertex_id, _, _ in found}}
        return [
            self._slow_task(by_vertex[vertex_id.vertex], attempt, evidence, mild[vertex_id.vertex], now)
            for vertex_id, attempts, evidence in found
            for attempt in attempts
        ]

    def by_time(self, seen: SeenStage) -> ExecutionTimeBasedSlowTaskDetector:
        """The gate was passed by what the driver counts; where it tells of fewer, these stand for all of them."""
        options = self._options.slow_tasks
        told = Fraction(len(seen.vertex.finished), seen.vertex.parallelism)
        ratio = min(options.baseline_ratio, told) if told else options.baseline_ratio
        return ExecutionTimeBasedSlowTaskDetector(replace(options, baseline_ratio=ratio))

    def _mild_below(self, seen: SeenStage) -> float:
        """Seconds below which tasks of the stage are hardly slow."""
        baseline = None if self.by_node is not None else self.by_time(seen).baseline(seen.vertex)
        return self._tolerated_factor * baseline.seconds if baseline is not None else 0.0

    @property
    def _tolerated_factor(self) -> float:
        return (self._options.node_aware or NodeAwareOptions()).tolerated_factor

    def _slow_task(
        self, seen: SeenStage, attempt: ExecutionAttemptID, evidence: str, mild_below: float, now: float
    ) -> tuple[SlowTask, Suspect]:
        task, vertex = seen.tasks[attempt], seen.vertex.tasks[attempt.vertex_id.subtask]
        execution = vertex.current(attempt)
        assert execution is not None
        work = work_of(task, now - task.launched_at)
        if task.input_bytes is None and work.seconds >= _TOLD_BY_NOW:
            work = Work(work.seconds, 0, 0)
        case = Case(work, seen.typical, self._tolerated_factor, mild_below)
        slow = SlowTask(
            str(attempt.vertex_id),
            task.executor,
            execution.node or NOWHERE,
            evidence,
            case.blame(Says.NOTHING),
            max(0, self._options.speculation.max_concurrent_executions - len(vertex.executions)),
            is_proven=self.by_node is not None,
        )
        return slow, Suspect(task, case)


def judged(slow: SlowTask, suspect: Suspect, statement: Statement) -> SlowTask:
    """The slow attempt, with what the witness says."""
    evidence = "; ".join(filter(None, (slow.evidence, statement.evidence)))
    is_proven = slow.is_proven or statement.says is Says.STARVED
    return replace(slow, evidence=evidence, blame=suspect.case.blame(statement.says), is_proven=is_proven)


def blamed(seen: Sequence[SeenStage], found: Sequence[Slow]) -> dict[str, frozenset[str]]:
    """[stage -> nodes of its slow attempts]"""
    by_name = {one.name: one for one in seen}
    nodes: dict[str, set[str]] = {}
    for vertex_id, attempts, _ in found:
        executions = by_name[vertex_id.vertex].vertex.tasks[vertex_id.subtask].executions
        there = {one.node for one in executions if one.attempt_id in attempts and one.node is not None}
        nodes.setdefault(vertex_id.vertex, set()).update(there)
    return {name: frozenset(there) for name, there in nodes.items()}
