"""When vertices are deployed: as soon as all their BLOCKING inputs are complete (S6-11, S7-16).

Vertices joined by PIPELINED exchanges are deployed together, also where one of them reads a stored result of another:
whoever runs them makes the reader wait. Producers of EPHEMERAL and CACHED results hold
nobody back, but nobody is deployed before them: they go together, or the producer first. A consumer of a
BLOCKING result waits for the whole result, also where it reads one partition of it.
"""

from __future__ import annotations

from rekindle.core.actions import Deployment
from rekindle.core.execution_job_vertex import ExecutionVertices
from rekindle.core.job_graph import JobEdge, JobGraph
from rekindle.core.regions import PipelinedRegions


class PipelinedRegionScheduling:
    """Deploys what waits, region by region."""

    def __init__(self, job_graph: JobGraph, regions: PipelinedRegions, vertices: ExecutionVertices) -> None:
        self._graph, self._regions, self._vertices = job_graph, regions, vertices

    def deploy_ready(self) -> tuple[Deployment, ...]:
        """Schedules every pending vertex whose inputs are there; producers come first."""
        deployments: list[Deployment] = []
        for group in self._regions.groups:
            if all(self._is_ready(edge) for name in group for edge in self._graph.inputs(name)):
                for name in group:
                    deployments += self.deploy(name, sorted(self._vertices[name].pending))
        return tuple(deployments)

    def deploy(self, vertex: str, subtasks: list[int]) -> list[Deployment]:
        """Schedules these pending subtasks."""
        job_vertex = self._vertices[vertex]
        return [
            Deployment(job_vertex.schedule(subtask).attempt_id, job_vertex.tasks[subtask].version, False)
            for subtask in subtasks
        ]

    def _is_ready(self, edge: JobEdge) -> bool:
        """Groups come after those they read, so of a producer that is deployed together nothing is pending by now."""
        if edge.consumer in self._regions.group_of(edge.producer):
            return True
        producer = self._vertices[edge.producer]
        if edge.kind.is_stored:
            return producer.is_finished
        return not producer.pending
