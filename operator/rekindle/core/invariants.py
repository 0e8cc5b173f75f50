"""What is always so between two events, whatever has happened."""

from __future__ import annotations

from rekindle.core.execution import ExecutionState, InvariantViolation
from rekindle.core.execution_job_vertex import ExecutionJobVertex
from rekindle.core.ids import ExecutionVertexID
from rekindle.core.job_graph import ResultKind
from rekindle.core.job_state import JobState
from rekindle.core.partitions import ResultPartitions


def check(state: JobState) -> None:
    """Raises InvariantViolation, saying which rule is broken."""
    for vertex in state.vertices:
        _check_tasks(vertex)
        _check_outputs(vertex, state.partitions)
    _check_sparing(state)
    if not state.failed:
        _check_inputs(state)
        _check_progress(state)


def _check_tasks(vertex: ExecutionJobVertex) -> None:
    for subtask, task in enumerate(vertex.tasks):
        task.validate()
        state = task.representative.state
        _require((state is ExecutionState.FINISHED) == (subtask in vertex.finished), f"{task.id} is {state}")
        _require((state is ExecutionState.CREATED) == (subtask in vertex.pending), f"{task.id} is {state}")


def _check_outputs(vertex: ExecutionJobVertex, partitions: ResultPartitions) -> None:
    name = vertex.job_vertex.name
    for subtask in range(vertex.parallelism):
        made = partitions.content(name, subtask) is not None
        _require(made == (subtask in vertex.finished), f"partition {name}/{subtask} is recorded: {made}")


def _check_inputs(state: JobState) -> None:
    """Nobody waits for a partition that nobody makes: what is missing is not needed."""
    done = state.needs.done()
    for edge in state.job_graph.edges:
        consumer = state.vertices[edge.consumer]
        if edge.consumer in done or consumer.is_finished or edge.kind is ResultKind.PIPELINED:
            continue
        for subtask in state.partitions.missing(edge.producer):
            waiting = set(state.job_graph.consumers(edge, subtask)) - consumer.finished
            _require(not waiting, f"{edge}: {waiting} wait for partition {subtask}, which is missing")


def _check_progress(state: JobState) -> None:
    """What is needed and was deployed can finish; else nothing would ever try it again."""
    done, awaited = state.needs.done(), _awaited(state)
    for vertex in state.vertices:
        for task in vertex.tasks if vertex.job_vertex.name not in done else ():
            can = task.can_finish or task.id not in awaited
            _require(can, f"{task.id} is {task.representative.state} and is not tried again")


def _awaited(state: JobState) -> set[ExecutionVertexID]:
    """Execution vertices whose result is stored, or leaves the job, or is read by one that is awaited and unfinished.

    A vertex may be needed for one of its subtasks only: what its others made was read, and they were given up.
    """
    awaited: set[ExecutionVertexID] = set()
    for name in reversed(state.job_graph.order):
        edges = state.job_graph.outputs(name)
        always = not edges or any(edge.kind.is_stored for edge in edges)
        for subtask in range(state.vertices[name].parallelism):
            readers = ((edge.consumer, one) for edge in edges for one in state.job_graph.consumers(edge, subtask))
            if always or any(
                one not in state.vertices[reader].finished and ExecutionVertexID(reader, one) in awaited
                for reader, one in readers
            ):
                awaited.add(ExecutionVertexID(name, subtask))
    return awaited


def _check_sparing(state: JobState) -> None:
    held, expected = state.sparing.held, state.sparing.expected
    for edge, readers in held.items():
        finished = state.vertices[edge.consumer].finished
        _require(bool(readers) and readers <= finished, f"{edge} holds {sorted(readers)}")
        _require(bool(expected.get(edge.producer)), f"{edge} holds {sorted(readers)} for no digest")
    _require(not (state.told_finish and held), f"the job is done, and {held} may have to restart")
    for name, digests in expected.items():
        _require(any(edge in held for edge in state.job_graph.outputs(name)), f"{name} is compared for nobody")
        finished = state.vertices[name].finished
        _require(not finished & digests.keys(), f"{name}: a digest is awaited of a finished vertex")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InvariantViolation(what)
