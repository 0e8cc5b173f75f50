"""Another job graph in the midst of a run: an edited pipeline goes on with what still fits it.

A job vertex is *kept*, with all that it has made, where it is what it was: as many subtasks, which read the same
results of kept vertices in the same way, in the same pipelined group. Whether its code is the same is for others to
say (`RerunRequested`). Every other vertex begins, and where there was one of its name it begins a version that nobody
has written: what is stored under that name is of another graph.
"""

from __future__ import annotations

from rekindle.core.actions import EDITED, Action, Edited
from rekindle.core.execution import ExecutionState
from rekindle.core.execution_job_vertex import ExecutionJobVertex, ExecutionVertices
from rekindle.core.execution_vertex import ExecutionVertex
from rekindle.core.job_graph import JobGraph
from rekindle.core.job_state import JobState
from rekindle.core.regions import PipelinedRegions, Subtasks

_BEGINNING = (1, 0)
"""The first version, and the first attempt."""


def kept_vertices(old: JobGraph, new: JobGraph) -> frozenset[str]:
    """Names of the job vertices of `new` that are what they were in `old`."""
    before, now = PipelinedRegions(old), PipelinedRegions(new)
    kept: set[str] = set()
    for group in now.groups:  # each comes after those that it reads
        same = all(name in old and _is_same(name, old, new) for name in group)
        same = same and set(group) == set(before.group_of(group[0]))
        read = {edge.producer for name in group for edge in new.inputs(name)} - set(group)
        if same and read <= kept:
            kept.update(group)
    return frozenset(kept)


def change_graph(state: JobState, new: JobGraph, now: float) -> tuple[JobState, list[Action]]:
    """The job as it goes on with another graph, and what of it is made again at once.

    That is what had begun and begins anew, and what was given up, or lost, when nobody needed it any more, and now
    somebody does. Nothing is deployed: the new driver says first what else is lost. What `state` is made of goes over,
    so it is of no more use.
    """
    kept = kept_vertices(state.job_graph, new)
    spent = state.spent | {
        vertex.job_vertex.name: _after(vertex) for vertex in state.vertices if vertex.job_vertex.name not in kept
    }
    vertices = [
        state.vertices[name]
        if name in kept
        else ExecutionJobVertex.create(new.vertex(name), *spent.get(name, _BEGINNING))
        for name in new.order
    ]
    changed = JobState.assemble(
        new, ExecutionVertices(vertices), state.speculation, state.budget, state.blocklist, state.counters
    )
    changed.submitted, changed.failed = state.submitted, state.failed
    changed.spent = {name: one for name, one in spent.items() if name not in new}
    _keep(state, changed, kept, now)
    anew = _begun_anew(state, new, kept)
    return changed, [Edited(), *changed.recovery.restart(_wanted(changed, kept), EDITED, now, anew=anew)]


def _is_same(name: str, old: JobGraph, new: JobGraph) -> bool:
    same_inputs = set(old.inputs(name)) == set(new.inputs(name))
    return same_inputs and old.vertex(name).parallelism == new.vertex(name).parallelism


def _after(vertex: ExecutionJobVertex) -> tuple[int, int]:
    """A version, and an attempt, that none of its subtasks has had."""
    begun = [task for task in vertex.tasks if _has_begun(task)]
    versions = (task.version + 1 for task in begun)
    return max(versions, default=1), max((task.next_attempt for task in begun), default=0)


def _has_begun(task: ExecutionVertex) -> bool:
    return (task.version, task.next_attempt) != (1, 1) or task.representative.state is not ExecutionState.CREATED


def _keep(old: JobState, new: JobState, kept: frozenset[str], now: float) -> None:
    for vertex in new.vertices:
        name = vertex.job_vertex.name
        if name in kept:
            vertex.job_vertex = new.job_graph.vertex(name)  # it may promise something else now
            new.partitions.take_over(name, old.partitions)
        else:
            vertex.created(now)
    new.recovery.released.update(old.recovery.released & kept)
    held = {edge: set(readers) for edge, readers in old.sparing.held.items() if edge.consumer in kept}
    producers = {edge.producer for edge in held}
    new.sparing.restore(held, {name: one for name, one in old.sparing.expected.items() if name in producers})


def _begun_anew(old: JobState, new: JobGraph, kept: frozenset[str]) -> Subtasks:
    """Subtasks that had begun of vertices that begin anew, as far as there still are as many."""
    return {
        vertex.job_vertex.name: vertex.started.intersection(range(new.vertex(vertex.job_vertex.name).parallelism))
        for vertex in old.vertices
        if vertex.job_vertex.name in new and vertex.job_vertex.name not in kept
    }


def _wanted(state: JobState, kept: frozenset[str]) -> Subtasks:
    """Partitions that are missing, which nobody needed and now somebody does."""
    done = state.needs.done()
    missing = {name: state.partitions.missing(name) for name in state.job_graph.order if name in kept}
    return {
        name: {subtask for subtask in subtasks if state.needs.is_needed(name, subtask, done)}
        for name, subtasks in missing.items()
    }
