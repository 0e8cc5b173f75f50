"""The execution graph: events go in with a time, actions come out.

`handle` is the only way to change its state, and it is deterministic: the same events at the same times give
the same state and the same actions. So a journal of events is a full account of a job, and a new driver that
replays it knows what the old one knew.

An event about something that is not so (any more), such as the end of an attempt that a restart has already
replaced, changes nothing. None of them raises: events come late, twice, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rekindle.core import events as ev
from rekindle.core.actions import Action
from rekindle.core.attempts import AttemptHandler
from rekindle.core.blocklist import BlockedNode
from rekindle.core.execution import Execution, ExecutionState
from rekindle.core.execution_job_vertex import ExecutionJobVertex
from rekindle.core.execution_vertex import ExecutionVertex
from rekindle.core.failover import FailoverStrategy
from rekindle.core.graph_change import change_graph
from rekindle.core.ids import ExecutionVertexID, ResultPartitionID
from rekindle.core.invariants import check
from rekindle.core.inventory import JobInventory, restore, take_inventory
from rekindle.core.job_graph import JobGraph
from rekindle.core.job_state import JobState
from rekindle.core.losses import LossHandler
from rekindle.core.metrics import GraphMetrics
from rekindle.core.options import BlocklistOptions, FailoverOptions, SpeculationOptions
from rekindle.core.progress import Progress
from rekindle.core.slow_nodes import SlowNodeHandler

_HEARD_WHEN_FAILED = (ev.OptionsGiven, ev.JobGraphChanged, ev.PartitionsLost, ev.DriverLost, ev.RerunRequested)
"""What a driver that tries again after a failure begins with."""


class ExecutionGraph:
    """A job graph while it runs. Times are seconds since the epoch.

    The views raise KeyError for a vertex that is not of this job. What they return is not to be changed.
    """

    def __init__(
        self,
        job_graph: JobGraph,
        *,
        speculation: SpeculationOptions,
        failover: FailoverOptions,
        blocklist: BlocklistOptions,
    ) -> None:
        self._set(JobState.create(job_graph, speculation, failover, blocklist))

    def _set(self, state: JobState) -> None:
        self._state = state
        self._progress = Progress(state)
        attempts, losses, slow_nodes = AttemptHandler(state), LossHandler(state), SlowNodeHandler(state)
        self._handlers: dict[type[ev.Event], Callable[[Any, float], list[Action]]] = {
            ev.JobSubmitted: self._job_submitted,
            ev.OptionsGiven: self._options_given,
            ev.JobGraphChanged: self._job_graph_changed,
            ev.AttemptDeployed: attempts.deployed,
            ev.AttemptFinished: attempts.finished,
            ev.AttemptFailed: attempts.failed,
            ev.AttemptCanceled: attempts.canceled,
            ev.PartitionsLost: losses.partitions_lost,
            ev.NodeLost: losses.node_lost,
            ev.DriverLost: losses.driver_lost,
            ev.NodesChanged: slow_nodes.nodes_changed,
            ev.SlowTasksFound: slow_nodes.slow_tasks_found,
            ev.NodeBlockRequested: slow_nodes.node_block_requested,
            ev.NodeUnblockRequested: slow_nodes.node_unblock_requested,
            ev.RerunRequested: losses.rerun_requested,
            ev.Tick: lambda event, now: [],
        }

    def handle(self, event: ev.Event, now: float) -> list[Action]:
        """Take in what happened; returns what is to be done about it, in order."""
        if self._state.failed and not isinstance(event, _HEARD_WHEN_FAILED):
            return []
        actions = self._state.blocklist.expire(now)
        actions += self._handlers[type(event)](event, now)
        state = self._state
        if state.changed and state.submitted and not state.failed:
            actions += self._progress.advance()
        return actions

    def _job_submitted(self, event: ev.JobSubmitted, now: float) -> list[Action]:
        if not self._state.submitted:
            self._state.vertices.created(now)
        self._state.submitted = self._state.changed = True
        return []

    def _options_given(self, event: ev.OptionsGiven, now: float) -> list[Action]:
        self._state.set_options(event.speculation, event.failover, event.blocklist, event.speculative)
        return []

    def _job_graph_changed(self, event: ev.JobGraphChanged, now: float) -> list[Action]:
        state, actions = change_graph(self._state, event.job_graph(self.job_graph.name), now)
        self._set(state)
        return actions

    def restore(self, inventory: JobInventory) -> None:
        """Bring a job that has not begun to where the inventory says it is; raises ValueError where it is another's."""
        restore(self._state, inventory)

    # -- views of vertices -----------------------------------------------------------------------------

    def execution_vertices(self, vertex: str) -> Sequence[ExecutionVertex]:
        """The execution vertices of a job vertex, by subtask."""
        return self._state.vertices[vertex].tasks

    def execution_job_vertices(self) -> Sequence[ExecutionJobVertex]:
        """All job vertices, in topological order."""
        return tuple(self._state.vertices)

    def current_executions(self, vertex_id: ExecutionVertexID) -> tuple[Execution, ...]:
        """Oldest first; never empty."""
        return self._state.vertices.task(vertex_id).executions

    def version(self, vertex_id: ExecutionVertexID) -> int:
        """The version of its partition that is valid or being made; 1 at first."""
        return self._state.vertices.task(vertex_id).version

    def state(self, vertex_id: ExecutionVertexID) -> ExecutionState:
        """That of its representative (S2-18)."""
        return self._state.vertices.task(vertex_id).representative.state

    def is_deployed(self, vertex_id: ExecutionVertexID) -> bool:
        """Whether a Deploy was told for its current version: it runs, or should, or has finished."""
        return self.state(vertex_id) is not ExecutionState.CREATED

    def is_finished(self, vertex: str) -> bool:
        """Whether all subtasks of a job vertex have finished."""
        return self._state.vertices[vertex].is_finished

    def is_finished_for_good(self, vertex: str) -> bool:
        """Whether, besides, no failure can make it run again, nor anybody read it again (S7-23)."""
        self._state.vertices[vertex]  # an unknown name is a KeyError here too
        return vertex in self._state.needs.over()

    def unfinished(self, vertex: str) -> tuple[int, ...]:
        """Subtasks, in order."""
        return tuple(sorted(self._state.vertices[vertex].unfinished))

    def suspects(self) -> tuple[ExecutionVertexID, ...]:
        """Finished vertices that restart if what they read comes out differently the second time (S7-7)."""
        held = self._state.sparing.held
        return tuple(sorted({ExecutionVertexID(edge.consumer, one) for edge in held for one in held[edge]}))

    # -- views of the job ------------------------------------------------------------------------------

    @property
    def job_graph(self) -> JobGraph:
        """As it is now."""
        return self._state.job_graph

    @property
    def is_done(self) -> bool:
        """Finish was told, and nothing has been lost since."""
        return self._state.told_finish

    @property
    def has_failed(self) -> bool:
        """Fail was told, and no new driver has begun since."""
        return self._state.failed

    @property
    def failover_strategy(self) -> FailoverStrategy:
        """The one that was asked for. To ask it changes nothing."""
        return self._state.recovery.strategy

    def inventory(self) -> JobInventory:
        """What there is of the job now, in groups."""
        return take_inventory(self._state)

    def left(self) -> dict[str, int]:
        """How many subtasks are still to finish, by job vertex."""
        done = self._state.needs.done()
        unfinished = {name: len(self._state.vertices[name].unfinished) for name in self.job_graph.order}
        return {name: count for name, count in unfinished.items() if count and name not in done}

    def typical_seconds(self) -> dict[str, float]:
        """The median execution time of a finished subtask, by job vertex; without those of which none has finished."""
        finished = {vertex.job_vertex.name: (vertex, len(vertex.finished)) for vertex in self._state.vertices}
        return {name: vertex.finishing_order.typical(count) for name, (vertex, count) in finished.items() if count}

    def available(self) -> int:
        """How many result partitions can be read."""
        return self._state.partitions.available

    def output(self, partition: ResultPartitionID) -> ev.PartitionOutput | None:
        """What was written; None when there is nothing to be read, not yet or not any more."""
        return self._state.partitions.output(partition)

    def records(self, vertex: str) -> int:
        """Rows of the result partitions of a job vertex, also of those that were released since they were made."""
        content = self._state.partitions.content
        subtasks = range(self._state.vertices[vertex].parallelism)
        return sum(one.rows for one in (content(vertex, subtask) for subtask in subtasks) if one is not None)

    def blocked_nodes(self, now: float) -> dict[str, BlockedNode]:
        """The blocks in force at `now`."""
        return self._state.blocklist.at(now)

    def metrics(self) -> GraphMetrics:
        return self._state.counters.metrics

    def validate_state(self) -> None:
        """Raises InvariantViolation when the state contradicts itself. For tests: it looks at everything."""
        check(self._state)
