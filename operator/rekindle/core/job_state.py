"""All that is known of a job, put together: what the handlers of events share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from rekindle.core.actions import Action, Cancel, Fail
from rekindle.core.blocklist import Blocklist
from rekindle.core.budget import FailureBudget
from rekindle.core.execution import ExecutionState
from rekindle.core.execution_job_vertex import ExecutionJobVertex, ExecutionVertices
from rekindle.core.execution_vertex import ExecutionVertex
from rekindle.core.failover import FailoverStrategy, RestartAllStrategy, RestartPipelinedRegionStrategy
from rekindle.core.ids import ExecutionAttemptID
from rekindle.core.job_graph import JobGraph
from rekindle.core.metrics import Counters
from rekindle.core.needs import PartitionNeeds
from rekindle.core.options import BlocklistOptions, FailoverOptions, FailoverStrategyKind, SpeculationOptions
from rekindle.core.partitions import ResultPartitions
from rekindle.core.recovery import Recovery
from rekindle.core.regions import PipelinedRegions
from rekindle.core.sparing import DigestSparing


@dataclass
class JobState:
    """The parts, and some facts.

    Attributes:
        speculative: job vertices that may be copied.
        submitted: the job has begun.
        failed: Fail was told; only a new driver changes anything.
        told_finish: Finish was told, and nothing was lost since.
        changed: since what can be deployed, released or finished was last looked at.
        spent: [job vertex that was given up -> the version and the attempt that one of its name begins with].
    """

    job_graph: JobGraph
    speculation: SpeculationOptions
    regions: PipelinedRegions
    vertices: ExecutionVertices
    partitions: ResultPartitions
    sparing: DigestSparing
    needs: PartitionNeeds
    recovery: Recovery
    budget: FailureBudget
    blocklist: Blocklist
    counters: Counters
    speculative: frozenset[str]
    submitted: bool = False
    failed: bool = False
    told_finish: bool = False
    changed: bool = False
    spent: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def create(
        cls,
        job_graph: JobGraph,
        speculation: SpeculationOptions,
        failover: FailoverOptions,
        blocklist: BlocklistOptions,
    ) -> JobState:
        return cls.assemble(
            job_graph,
            ExecutionVertices(ExecutionJobVertex.create(job_graph.vertex(name)) for name in job_graph.order),
            speculation,
            FailureBudget(failover),
            Blocklist(blocklist),
            Counters(),
        )

    @classmethod
    def assemble(
        cls,
        job_graph: JobGraph,
        vertices: ExecutionVertices,
        speculation: SpeculationOptions,
        budget: FailureBudget,
        blocklist: Blocklist,
        counters: Counters,
    ) -> JobState:
        """Of these vertices; no partition of theirs is known yet."""
        regions = PipelinedRegions(job_graph)
        partitions = ResultPartitions(job_graph)
        sparing = DigestSparing(job_graph, regions, vertices, partitions)
        needs = PartitionNeeds(job_graph, vertices, sparing)
        strategy = _strategy(budget.options, job_graph, regions, vertices, partitions, sparing)
        return cls(
            job_graph,
            speculation,
            regions,
            vertices,
            partitions,
            sparing,
            needs,
            Recovery(job_graph, vertices, partitions, needs, sparing, strategy, counters),
            budget,
            blocklist,
            counters,
            frozenset(vertex.name for vertex in job_graph.vertices if vertex.speculative),
        )

    def set_options(
        self,
        speculation: SpeculationOptions,
        failover: FailoverOptions,
        blocklist: BlocklistOptions,
        speculative: Iterable[str],
    ) -> None:
        """What a driver was told; what was done before stays done."""
        self.speculation, self.speculative = speculation, frozenset(speculative)
        self.budget.set_options(failover)
        self.blocklist.set_options(blocklist)
        self.recovery.strategy = _strategy(
            failover, self.job_graph, self.regions, self.vertices, self.partitions, self.sparing
        )

    def cancel(self, tasks: Iterable[ExecutionVertex], reason: str) -> list[Action]:
        """Cancel what has been deployed of these and has not ended (S2-17, S2-39)."""
        canceling: list[ExecutionAttemptID] = []
        for task in tasks:
            for execution in task.live:
                if execution.state is not ExecutionState.CREATED:
                    task.put(execution.to(ExecutionState.CANCELING))
                    canceling.append(execution.attempt_id)
        return [Cancel(tuple(canceling), reason)] if canceling else []

    def cancel_all(self, reason: str) -> list[Action]:
        return self.cancel((task for vertex in self.vertices for task in vertex.tasks), reason)

    def fail(self, cause: str) -> list[Action]:
        """The job fails for good."""
        self.failed = True
        return [*self.cancel_all(f"the job has failed: {cause}"), Fail(cause)]


def _strategy(
    failover: FailoverOptions,
    job_graph: JobGraph,
    regions: PipelinedRegions,
    vertices: ExecutionVertices,
    partitions: ResultPartitions,
    sparing: DigestSparing,
) -> FailoverStrategy:
    if failover.strategy is FailoverStrategyKind.RESTART_ALL:
        return RestartAllStrategy(vertices)
    return RestartPipelinedRegionStrategy(job_graph, regions, vertices, partitions, sparing)
