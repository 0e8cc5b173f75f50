"""Job vertices at run time: their subtasks, and which of them wait, or have finished and in what order."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from statistics import median

from rekindle.core.execution import Execution, ExecutionState
from rekindle.core.execution_vertex import ExecutionVertex
from rekindle.core.ids import ExecutionVertexID
from rekindle.core.job_graph import JobVertex


class FinishingOrder:
    """Execution times of the finished subtasks of a job vertex, the first to finish first (S1-23).

    Who finishes next is nearly always the last so far, and does not move the median of the first (S1-12): neither
    is worked out again for it.
    """

    def __init__(self) -> None:
        self._order: list[tuple[float, int, float | None]] = []  # (finished at, subtask, seconds or not known)
        self._reset: set[int] = set()  # subtasks still in the order that have finished no longer
        self._typical: dict[int, float] = {}  # [how many of the first -> the median of their seconds]

    def add(self, execution: Execution) -> None:
        """Of a finished execution."""
        self._leave_out_reset()
        assert execution.finished_at is not None
        seconds = None if execution.deployed_at is None else execution.finished_at - execution.deployed_at
        entry = (execution.finished_at, execution.attempt_id.vertex_id.subtask, seconds)
        if not self._order or self._order[-1] < entry:
            self._order.append(entry)
        else:
            insort(self._order, entry)
            self._typical.clear()

    def reset(self, subtask: int) -> None:
        self._reset.add(subtask)
        self._typical.clear()

    def typical(self, first: int) -> float:
        """The median execution time of the `first` to finish, in seconds; 0 where none was seen to be deployed.

        Raises ValueError when fewer have finished.
        """
        self._leave_out_reset()
        if first > len(self._order):
            raise ValueError(f"{len(self._order)} have finished, {first} are asked about")
        if first not in self._typical:
            times = [seconds for _, _, seconds in self._order[:first] if seconds is not None]
            self._typical[first] = median(times) if times else 0.0
        return self._typical[first]

    def _leave_out_reset(self) -> None:
        """All at once: a restart resets subtasks by the thousand."""
        if self._reset:
            self._order = [entry for entry in self._order if entry[1] not in self._reset]
            self._reset.clear()


@dataclass(slots=True)
class ExecutionJobVertex:
    """A job vertex at run time: its subtasks, and which of them wait or have finished.

    Attributes:
        pending: subtasks with nothing deployed.
        finished: subtasks with an admitted execution.
        finishing_order: and how long these took.
    """

    job_vertex: JobVertex
    tasks: tuple[ExecutionVertex, ...]
    pending: set[int] = field(default_factory=set)
    finished: set[int] = field(default_factory=set)
    finishing_order: FinishingOrder = field(default_factory=FinishingOrder)

    @classmethod
    def create(cls, vertex: JobVertex, version: int = 1, attempt: int = 0) -> ExecutionJobVertex:
        """All subtasks wait; `attempt` is the number of their first ones."""
        ids = [ExecutionVertexID(vertex.name, subtask) for subtask in range(vertex.parallelism)]
        tasks = tuple(ExecutionVertex(one, 0.0, version, attempt) for one in ids)
        return cls(vertex, tasks, pending=set(range(vertex.parallelism)))

    @property
    def parallelism(self) -> int:
        return self.job_vertex.parallelism

    @property
    def is_finished(self) -> bool:
        return len(self.finished) == len(self.tasks)

    @property
    def unfinished(self) -> set[int]:
        return set(range(len(self.tasks))) - self.finished

    @property
    def started(self) -> set[int]:
        """Subtasks that are deployed or have finished (S7-9: the others are left alone)."""
        return set(range(len(self.tasks))) - self.pending

    @property
    def waiting_again(self) -> set[int]:
        """Pending subtasks that are not of the first version: somebody may have read what they made before. Where the
        vertex began anew with another job graph nobody has, for what had read it was given up with it."""
        return {subtask for subtask in self.pending if self.tasks[subtask].version > 1}

    def created(self, now: float) -> None:
        """None of its subtasks has begun: this is when their first executions were created."""
        for task in self.tasks:
            task.put(replace(task.representative, created_at=now))

    def schedule(self, subtask: int) -> Execution:
        """Its one CREATED execution becomes SCHEDULED."""
        task = self.tasks[subtask]
        self.pending.remove(subtask)
        task.put(task.representative.to(ExecutionState.SCHEDULED))
        return task.representative

    def admit(self, execution: Execution, at: float) -> Execution:
        """The execution finishes, and with it its vertex (S2-3)."""
        vertex_id = execution.attempt_id.vertex_id
        finished = execution.finished(at)
        self.tasks[vertex_id.subtask].put(finished)
        self.pending.discard(vertex_id.subtask)
        self.finished.add(vertex_id.subtask)
        self.finishing_order.add(finished)
        return finished

    def reset(self, subtask: int, now: float) -> None:
        self.tasks[subtask].reset(now)
        if subtask in self.finished:
            self.finished.remove(subtask)
            self.finishing_order.reset(subtask)
        self.pending.add(subtask)

    def retry(self, subtask: int, now: float) -> None:
        self.tasks[subtask].retry(now)
        self.pending.add(subtask)


class ExecutionVertices:
    """All job vertices of a job at run time, in topological order."""

    def __init__(self, vertices: Iterable[ExecutionJobVertex]) -> None:
        self._by_name = {vertex.job_vertex.name: vertex for vertex in vertices}

    def __getitem__(self, name: str) -> ExecutionJobVertex:
        return self._by_name[name]

    def __iter__(self) -> Iterator[ExecutionJobVertex]:
        return iter(self._by_name.values())

    def created(self, now: float) -> None:
        """The job begins: this is when the first executions were created."""
        for vertex in self:
            vertex.created(now)

    def task(self, vertex_id: ExecutionVertexID) -> ExecutionVertex:
        """Raises KeyError for an id that is not of this job."""
        task = self.find(vertex_id)
        if task is None:
            raise KeyError(f"{vertex_id} is no execution vertex of this job")
        return task

    def find(self, vertex_id: ExecutionVertexID) -> ExecutionVertex | None:
        vertex = self._by_name.get(vertex_id.vertex)
        known = vertex is not None and 0 <= vertex_id.subtask < vertex.parallelism
        return vertex.tasks[vertex_id.subtask] if vertex is not None and known else None
