"""What is done about slow tasks and the nodes they are on (FLIP-168, FLIP-224).

In this order: the nodes are blocked, copies are made up to the limit, and the copies are deployed, neither
on a blocked node nor next to a sibling (S2-36 to S2-38, S2-45).
"""

from __future__ import annotations

from dataclasses import replace

from rekindle.core.actions import Action, BlockRefused, Deploy, Deployment
from rekindle.core.blocklist import BlockedNode
from rekindle.core.events import NodeBlockRequested, NodesChanged, NodeUnblockRequested, SlowTasksFound
from rekindle.core.execution import ExecutionState
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.core.job_state import JobState
from rekindle.core.speculation import copies_to_make, may_be_copied, nodes_of_siblings


class SlowNodeHandler:
    """Handles the reports of detectors, and whatever else says that a node is slow."""

    def __init__(self, state: JobState) -> None:
        self._state = state
        self._refused: dict[str, str] = {}

    def nodes_changed(self, event: NodesChanged, now: float) -> list[Action]:
        return self._state.blocklist.nodes_changed(event.nodes)

    def node_block_requested(self, event: NodeBlockRequested, now: float) -> list[Action]:
        return self._state.blocklist.block(BlockedNode(event.node, now, event.until, event.cause), now)

    def node_unblock_requested(self, event: NodeUnblockRequested, now: float) -> list[Action]:
        return self._state.blocklist.unblock(event.node, event.reason)

    def slow_tasks_found(self, event: SlowTasksFound, now: float) -> list[Action]:
        """With speculation off there is no detector, and what is reported all the same is ignored (S2-12)."""
        if not self._state.speculation.enabled:
            return []
        self._state.counters.slow_now(event.num_vertices)
        blocks: list[Action] = []
        for vertex_id, attempts, evidence in event.slow:
            for attempt in attempts:
                blocks += self._block_node_of(attempt, f"slow task {vertex_id}: {evidence}", now)
        copies: dict[frozenset[str], list[Deployment]] = {}
        for vertex_id, _, _ in event.slow:
            for avoid, deployment in self._speculate(vertex_id, now):
                copies.setdefault(avoid, []).append(deployment)
        return [*blocks, *(Deploy(tuple(some), avoid) for avoid, some in copies.items())]

    def _block_node_of(self, attempt: ExecutionAttemptID, cause: str, now: float) -> list[Action]:
        """Whether or not its vertex may have copies (S3-11). A refusal is told once, not with each report."""
        task = self._state.vertices.find(attempt.vertex_id)
        execution = task.current(attempt) if task is not None else None
        if execution is None or execution.node is None or execution.state.is_terminal:
            return []
        until = now + self._state.speculation.block_slow_node_duration
        told = self._refused.pop(execution.node, None)
        answer = self._state.blocklist.block(BlockedNode(execution.node, now, until, cause), now)
        for refusal in answer:
            if isinstance(refusal, BlockRefused):
                self._refused[refusal.node] = refusal.reason
                return [] if refusal.reason == told else [refusal]
        return answer

    def _speculate(self, vertex_id: ExecutionVertexID, now: float) -> list[tuple[frozenset[str], Deployment]]:
        """New copies of a slow vertex, each with the nodes it must not go to.

        A vertex in a larger region gets none: the others of the region would have to be copied too (S2-11).
        """
        state, task = self._state, self._state.vertices.find(vertex_id)
        if task is None or not state.regions.is_alone(vertex_id.vertex):
            return []
        allowed = vertex_id.vertex in state.speculative
        vertex = replace(state.job_graph.vertex(vertex_id.vertex), speculative=allowed)
        if not may_be_copied(vertex, state.speculation):
            return []
        avoid = state.blocklist.nodes | nodes_of_siblings(task)
        copies = [task.create(now, speculative=True) for _ in range(copies_to_make(task, state.speculation))]
        for copy in copies:
            task.put(copy.to(ExecutionState.SCHEDULED))
        state.counters.add(num_speculative_executions=len(copies))
        return [(avoid, Deployment(copy.attempt_id, task.version, speculative=True)) for copy in copies]
