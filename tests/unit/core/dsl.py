"""A small language for the tests of the core: job graphs as text, a job driven by what happens to it.

    graph = job("A*2 => B*3 ~> C*3")

`=>` is a BLOCKING exchange, `->` PIPELINED, `~>` EPHEMERAL, `+>` CACHED, all-to-all; `=1>`, `-1>`, `~1>`, `+1>`
are pointwise. `*3` is the parallelism (1 when left out), given where a name comes first.

    run = Run(graph).submit()
    run.finish("A")
    run.fails("B[1]", cannot_read="A/0").restarts("A[0] B[0] B[1] B[2] C[0] C[1] C[2]")
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.execution import Execution, ExecutionState
from rekindle.core.graph import ExecutionGraph
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.core.job_graph import DistributionPattern, JobEdge, JobGraph, JobVertex, ResultKind
from rekindle.core.options import BlocklistOptions, FailoverOptions, SpeculationOptions

KINDS = {
    "=": ResultKind.BLOCKING,
    "-": ResultKind.PIPELINED,
    "~": ResultKind.EPHEMERAL,
    "+": ResultKind.CACHED,
}
ARROW = re.compile(r"\s+([=~+-])(1?)>\s+")


def job(*chains: str, **attributes: dict[str, Any]) -> JobGraph:
    """The job graph of these chains; `A={"deterministic": True}` sets fields of the vertex A."""
    parallelism: dict[str, int] = {}
    edges: list[JobEdge] = []
    for chain in chains:
        parts = ARROW.split(chain.strip())
        names = [_name(part, parallelism) for part in parts[::3]]
        for place, (line, pointwise) in enumerate(zip(parts[1::3], parts[2::3], strict=True)):
            pattern = DistributionPattern.POINTWISE if pointwise else DistributionPattern.ALL_TO_ALL
            edges.append(JobEdge(names[place], names[place + 1], KINDS[line], pattern))
    vertices = (JobVertex(name, count, **attributes.get(name, {})) for name, count in parallelism.items())
    return JobGraph("test", tuple(vertices), tuple(edges))


def _name(part: str, parallelism: dict[str, int]) -> str:
    name, _, count = part.partition("*")
    parallelism.setdefault(name, int(count or 1))
    return name


def vertex_id(text: str) -> ExecutionVertexID:
    return ExecutionVertexID.parse(text)


def attempt_id(text: str) -> ExecutionAttemptID:
    return ExecutionAttemptID.parse(text)


class Answer(list[act.Action]):
    """The actions that answered an event, with questions to ask of them."""

    def of(self, kind: type[Any]) -> list[Any]:
        return [action for action in self if isinstance(action, kind)]

    @property
    def restarted(self) -> set[str]:
        return {str(one) for restart in self.of(act.Restart) for one in restart.vertices}

    @property
    def deployed(self) -> list[str]:
        return [str(one.attempt) for deploy in self.of(act.Deploy) for one in deploy.deployments]

    @property
    def copies(self) -> list[str]:
        deployments = (one for deploy in self.of(act.Deploy) for one in deploy.deployments)
        return [str(one.attempt) for one in deployments if one.speculative]

    @property
    def canceled(self) -> list[str]:
        return [str(one) for cancel in self.of(act.Cancel) for one in cancel.attempts]

    @property
    def blocked(self) -> list[str]:
        return [block.node for block in self.of(act.Block)]

    @property
    def refused(self) -> list[str]:
        return [refusal.node for refusal in self.of(act.BlockRefused)]

    @property
    def unblocked(self) -> list[str]:
        return [unblock.node for unblock in self.of(act.Unblock)]

    @property
    def released(self) -> list[str]:
        return [release.vertex for release in self.of(act.Release)]

    @property
    def spared(self) -> set[str]:
        return {str(one) for spare in self.of(act.Spare) for one in spare.vertices}

    def restarts(self, vertices: str) -> Answer:
        """Exactly these were reset."""
        assert self.restarted == set(vertices.split())
        return self

    def restarts_nothing(self) -> Answer:
        return self.restarts("")


class Run:
    """A job, driven by events; after each the state is checked, and the event goes through its record.

    Names: "A" is all subtasks of A that have not finished, "A[1]" one subtask (its representative attempt),
    "A[1]#2" one attempt. `now` is the time of the next event.
    """

    def __init__(
        self,
        graph: JobGraph,
        *,
        speculation: SpeculationOptions | None = None,
        failover: FailoverOptions | None = None,
        blocklist: BlocklistOptions | None = None,
    ) -> None:
        self.options: dict[str, Any] = {
            "speculation": speculation or SpeculationOptions(),
            "failover": failover or FailoverOptions(),
            "blocklist": blocklist or BlocklistOptions(),
        }
        self.first_job_graph = graph
        self.graph = ExecutionGraph(graph, **self.options)
        self.now = 0.0
        self.journal: list[tuple[ev.Event, float, Answer]] = []

    def see(self, event: ev.Event) -> Answer:
        event = ev.from_record(json.loads(json.dumps(ev.to_record(event))))
        answer = Answer(self.graph.handle(event, self.now))
        self.journal.append((event, self.now, answer))
        self.graph.validate_state()
        return answer

    @property
    def job_graph(self) -> JobGraph:
        """As it is now."""
        return self.graph.job_graph

    # -- what happens ----------------------------------------------------------------------------------

    def submit(self) -> Run:
        self.see(ev.JobSubmitted())
        return self

    def deploy(self, what: str, node: str = "n1") -> Run:
        for one in self.attempts(what):
            self.see(ev.AttemptDeployed(one, node, self.now))
        return self

    def finish(self, what: str, digest: str | None = None, node: str = "n1") -> Answer:
        """Deploy and finish; returns everything that was answered."""
        answer = Answer()
        for one in self.attempts(what):
            answer += self.see(ev.AttemptDeployed(one, node, self.now))
            answer += self.see(ev.AttemptFinished(one, self.now, ev.PartitionOutput(1, 8, digest, node)))
        return answer

    def fails(self, what: str, kind: ev.FailureKind = ev.FailureKind.TASK, cannot_read: str | None = None) -> Answer:
        lost = ResultPartitionID.parse(cannot_read) if cannot_read else None
        kind = ev.FailureKind.PARTITION if cannot_read else kind
        (one,) = self.attempts(what)
        return self.see(ev.AttemptFailed(one, ev.FailureCause(kind, "it broke", lost)))

    def canceled(self, what: str) -> Answer:
        (one,) = self.attempts(what)
        return self.see(ev.AttemptCanceled(one))

    def loses(self, partitions: str) -> Answer:
        lost = tuple(ResultPartitionID.parse(one) for one in partitions.split())
        return self.see(ev.PartitionsLost(lost, "a volume is gone"))

    def loses_node(self, node: str) -> Answer:
        return self.see(ev.NodeLost(node, "it does not answer"))

    def loses_driver(self) -> Answer:
        return self.see(ev.DriverLost("killed"))

    def reruns(self, vertex: str) -> Answer:
        """Somebody asks for it."""
        return self.see(ev.RerunRequested(vertex, "somebody asks"))

    def becomes(self, graph: JobGraph) -> Answer:
        """The job has another graph."""
        return self.see(ev.JobGraphChanged.to(graph))

    def slow(self, *attempts: str) -> Answer:
        """A detector's report of these attempts."""
        by_vertex: dict[ExecutionVertexID, list[ExecutionAttemptID]] = {}
        for one in map(attempt_id, attempts):
            by_vertex.setdefault(one.vertex_id, []).append(one)
        return self.see(ev.SlowTasksFound(tuple((v, tuple(a), "too slow") for v, a in by_vertex.items())))

    def has_nodes(self, *nodes: str) -> Run:
        self.see(ev.NodesChanged(nodes))
        return self

    # -- what is so ------------------------------------------------------------------------------------

    def attempts(self, what: str) -> list[ExecutionAttemptID]:
        if "#" in what:
            return [attempt_id(what)]
        if "[" in what:
            return [self._representative(vertex_id(what)).attempt_id]
        return [
            self._representative(ExecutionVertexID(what, subtask)).attempt_id for subtask in self.graph.unfinished(what)
        ]

    def states(self, what: str) -> list[str]:
        """States of the current executions of a subtask, oldest first."""
        return [one.state.value for one in self.graph.current_executions(vertex_id(what))]

    def version(self, what: str) -> int:
        return self.graph.version(vertex_id(what))

    def versions(self, what: str) -> list[int]:
        return [task.version for task in self.graph.execution_vertices(what)]

    def waiting(self, what: str) -> list[int]:
        """Subtasks that are not deployed."""
        return [
            task.id.subtask
            for task in self.graph.execution_vertices(what)
            if task.representative.state is ExecutionState.CREATED
        ]

    def _representative(self, one: ExecutionVertexID) -> Execution:
        return self.graph.execution_vertices(one.vertex)[one.subtask].representative

    def snapshot(self) -> list[Any]:
        """All that can be seen of the state."""
        return [
            *(
                (task.id, task.version, task.executions)
                for name in self.job_graph.order
                for task in self.graph.execution_vertices(name)
            ),
            self.graph.metrics(),
            self.graph.blocked_nodes(self.now),
            self.graph.suspects(),
            self.graph.is_done,
            self.graph.has_failed,
            *map(self.graph.is_finished_for_good, self.job_graph.order),
        ]


def replay(run: Run) -> tuple[Run, list[Answer]]:
    """The same events at the same times, into a new graph."""
    again = Run(run.first_job_graph, **run.options)
    answers = []
    for event, now, _ in run.journal:
        again.now = now
        answers.append(again.see(event))
    return again, answers


def names(ids: Iterable[Any]) -> set[str]:
    return {str(one) for one in ids}
