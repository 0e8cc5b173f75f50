"""Edited pipelines against what they would have made had they never been anything else.

A promise, a digest and a version each spare work of which nobody may see that it was spared. Here results are lost and
pipelines edited at random, and what the last stages say is compared with all of it made at once.
"""

from __future__ import annotations

from random import Random

import pytest

from rekindle.core.graph_change import kept_vertices
from rekindle.core.ids import ExecutionVertexID, ResultPartitionID
from rekindle.core.job_graph import DistributionPattern, JobEdge, JobGraph, JobVertex, ResultKind
from tests.unit.core.dsl import Run


class EditedPipeline:
    """A pipeline that is run, loses results and is edited. A result stands for the code and the results that it was
    made of, so that a last one shows whether anything of before has got into it."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.code: dict[str, int] = {}
        self.vertices: dict[str, JobVertex] = {}
        self.edges: list[JobEdge] = []
        for name in "ABCDE"[: dice.randint(3, 5)]:
            self.add(name)
        self.run = Run(self.graph()).submit()
        self.made: dict[tuple[str, int], str] = {}

    def graph(self) -> JobGraph:
        return JobGraph("test", tuple(self.vertices.values()), tuple(self.edges))

    def add(self, name: str) -> None:
        """Each stage reads one or two others; some of them over a shuffle of their own."""
        parallelism = self.dice.choice([1, 2])
        stages = [one for one in self.vertices if "." not in one]
        read = self.dice.sample(stages, min(len(stages), self.dice.choice([1, 1, 2])))
        promise = self.dice.choice([True, True, None, False])
        reader, pattern = name, self.dice.choice(list(DistributionPattern))
        if self.dice.random() < 0.2:
            reader, pattern = f"{name}.map", DistributionPattern.ALL_TO_ALL
            self.vertices[reader] = JobVertex(reader, 1, deterministic=promise)
            self.edges.append(JobEdge(reader, name, ResultKind.EPHEMERAL))
        self.vertices[name] = JobVertex(name, parallelism, deterministic=promise)
        self.code[name] = 0
        self.edges += [JobEdge(one, reader, ResultKind.BLOCKING, pattern) for one in read]

    def content(self, name: str, subtask: int, made: dict[tuple[str, int], str]) -> str:
        graph = self.graph()
        read = [made[edge.producer, one] for edge in graph.inputs(name) for one in graph.producers(edge, subtask)]
        return f"{name}[{subtask}]{self.code[name.partition('.')[0]]}({','.join(sorted(read))})"

    def right(self) -> dict[tuple[str, int], str]:
        """All results, made at once."""
        made: dict[tuple[str, int], str] = {}
        for name in self.graph().order:
            for subtask in range(self.vertices[name].parallelism):
                made[name, subtask] = self.content(name, subtask, made)
        return made

    def step(self) -> bool:
        """One that may run finishes; False where none may."""
        ready = [
            task.id
            for name in self.run.job_graph.order
            for task in self.run.graph.execution_vertices(name)
            if not task.is_finished and self.run.graph.is_deployed(task.id) and self.can_read(task.id)
        ]
        if ready:
            one = self.dice.choice(ready)
            content = self.made[one.vertex, one.subtask] = self.content(one.vertex, one.subtask, self.made)
            self.run.finish(str(one), content)
        return bool(ready)

    def can_read(self, one: ExecutionVertexID) -> bool:
        graph = self.run.job_graph
        return all(
            self.run.graph.output(ResultPartitionID(edge.producer, subtask)) is not None
            for edge in graph.inputs(one.vertex)
            for subtask in graph.producers(edge, one.subtask)
        )

    def lose_some(self) -> None:
        graph = self.run.graph
        there = [(name, one) for name, one in self.made if name in graph.job_graph and graph.job_graph.is_stored(name)]
        self.run.loses(" ".join(f"{name}/{one}" for name, one in there if self.dice.random() < 0.3))

    def edit(self) -> None:
        """The next driver finds other code, another stage or one fewer; some of the results may be gone besides."""
        before = self.run.job_graph
        changed = [name for name in self.code if self.dice.random() < 0.3]
        for name in changed:
            self.code[name] += 1
        if self.dice.random() < 0.3:
            self.take_out(self.dice.choice(list(self.code)))
        self.add(self.dice.choice([name for name in "ABCDEFGH" if name not in self.code]))
        self.run.becomes(self.graph())
        if self.dice.random() < 0.4:
            self.lose_some()
        for name in kept_vertices(before, self.graph()).intersection(changed):
            self.run.reruns(name)
        self.run.loses_driver()

    def take_out(self, name: str) -> None:
        self.code.pop(name)
        for one in (name, f"{name}.map"):
            self.vertices.pop(one, None)
            self.edges = [edge for edge in self.edges if one not in (edge.producer, edge.consumer)]


@pytest.mark.requirement("S7-5", "S7-6", "S7-7")
def test_an_edited_pipeline_ends_with_what_it_would_have_made_had_it_never_been_another():
    for seed in range(150):
        dice = Random(seed)
        pipeline = EditedPipeline(dice)
        for _ in range(dice.randint(1, 2)):
            for _ in range(dice.choice([3, 6, 20])):
                pipeline.step()
            pipeline.edit()
        while pipeline.step():
            pass
        assert pipeline.run.graph.is_done, seed
        right = pipeline.right()
        last = [name for name in pipeline.run.job_graph.order if not pipeline.run.job_graph.outputs(name)]
        for key in (key for key in right if key[0] in last):
            assert pipeline.made[key] == right[key], seed
