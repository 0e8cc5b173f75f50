"""What recovery is for: at the end nobody has read rows that were later replaced by others (S7-6).

A world around the core keeps account, knowing nothing of regions, walks and suspects: which version of each input
every attempt was deployed on, and what each version contained. When the job says that it is done, each result
must have been computed from the versions that are valid now, or from ones with the same rows.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from tests.unit.core.dsl import Answer, Run
from tests.unit.core.test_replay import all_goes_well, play, rolls_of_dice, runs

Version = tuple[ExecutionVertexID, int]


class World(Run):
    """A run that keeps account."""

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.reads: dict[ExecutionAttemptID, list[Version]] = {}
        self.rows: dict[Version, str | None] = {}  # the digest; None: unlike any other
        self.made_from: dict[Version, list[Version]] = {}

    def see(self, event: ev.Event) -> Answer:
        answer = super().see(event)
        if isinstance(event, ev.AttemptFinished):
            self._keep_rows(event)
        for deploy in answer.of(act.Deploy):
            for deployment in deploy.deployments:
                self.reads[deployment.attempt] = self._inputs(deployment.attempt.vertex_id)
        return answer

    def _keep_rows(self, event: ev.AttemptFinished) -> None:
        vertex = event.attempt.vertex_id
        if vertex.vertex in self.job_graph and vertex.subtask < self.job_graph.vertex(vertex.vertex).parallelism:
            finished = self.graph.execution_vertices(vertex.vertex)[vertex.subtask].representative
            if finished.attempt_id == event.attempt and finished.state == "FINISHED":
                version = (vertex, self.graph.version(vertex))
                self.rows.setdefault(version, event.output.digest)
                self.made_from.setdefault(version, self.reads[event.attempt])

    def _inputs(self, vertex: ExecutionVertexID) -> list[Version]:
        producers = [
            ExecutionVertexID(edge.producer, subtask)
            for edge in self.job_graph.inputs(vertex.vertex)
            for subtask in self.job_graph.producers(edge, vertex.subtask)
        ]
        return [(producer, self.graph.version(producer)) for producer in producers]

    def mixed(self) -> list[str]:
        """Results that were computed from rows that are not the valid ones."""
        return [
            f"{task.id} has read version {version} of {producer}, valid is {self.graph.version(producer)}"
            for name in self.job_graph.order
            for task in self.graph.execution_vertices(name)
            if task.is_finished
            for producer, version in self.reads[task.representative.attempt_id]
            if not self._same_rows(producer, version, self.graph.version(producer))
        ]

    def _same_rows(self, producer: ExecutionVertexID, version: int, valid: int) -> bool:
        if version == valid:
            return True
        rows = self.rows.get((producer, version))
        equal = rows is not None and rows == self.rows.get((producer, valid))
        return equal or (self._is_promised(producer) and self._same_input(producer, version, valid))

    def _is_promised(self, producer: ExecutionVertexID) -> bool:
        return bool(self.job_graph.vertex(producer.vertex).deterministic)

    def _same_input(self, producer: ExecutionVertexID, version: int, valid: int) -> bool:
        """A promise is of the same rows from the same rows. What was never made again has no input yet."""
        then, now = self.made_from.get((producer, version)), self.made_from.get((producer, valid))
        if then is None or now is None:
            return True
        return all(self._same_rows(one, before, after) for (one, before), (_, after) in zip(then, now, strict=True))


@pytest.mark.requirement("S7-5", "S7-6", "S7-7", "S7-12", "S7-17")
@settings(max_examples=2 * settings().max_examples)
@given(run=runs(), rolls=rolls_of_dice, digests=st.sampled_from([("x",), ("x", "x", "y"), ("x", None)]))
def test_at_the_end_everything_was_computed_from_what_is_valid(run, rolls, digests):
    world = World(run.job_graph, **run.options)
    play(world, rolls)
    all_goes_well(world, digests)
    if world.graph.is_done:
        assert world.mixed() == []
