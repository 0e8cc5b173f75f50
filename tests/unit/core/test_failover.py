"""How far a failure reaches. Every scenario is one line: what is lost, who fails, who restarts.

The topologies are those that the region strategy of Flink is held to, and the ones of FLIP-1.
"""

from __future__ import annotations

import pytest

from rekindle.core.events import PartitionOutput
from rekindle.core.execution import ExecutionState
from rekindle.core.ids import ResultPartitionID
from rekindle.core.job_graph import JobGraph, ResultKind
from rekindle.core.job_state import JobState
from rekindle.core.options import BlocklistOptions, FailoverOptions, FailoverStrategyKind, SpeculationOptions
from rekindle.core.regions import in_order
from tests.unit.core.dsl import ARROW, job, names, vertex_id

pytestmark = pytest.mark.requirement("S6-15", "S7-1")


class Failover:
    """A job of which every vertex was deployed and every partition is there, until it is said otherwise."""

    def __init__(self, graph: JobGraph, kind: FailoverStrategyKind = FailoverStrategyKind.REGION) -> None:
        self._state = JobState.create(graph, SpeculationOptions(), FailoverOptions(strategy=kind), BlocklistOptions())
        self._graph = graph
        for vertex in self._state.vertices:
            for subtask in range(vertex.parallelism):
                vertex.admit(vertex.schedule(subtask), 0.0)
                self._state.partitions.add(vertex.job_vertex.name, subtask, PartitionOutput(1, 1))

    def never_deployed(self, vertices: str) -> Failover:
        for one in map(vertex_id, vertices.split()):
            vertex = self._state.vertices[one.vertex]
            self._state.partitions.invalidate(one.vertex, [one.subtask])
            vertex.reset(one.subtask, 0.0)
            vertex.tasks[one.subtask].version = 1
        return self

    def running(self, vertices: str) -> Failover:
        """Deployed and not finished: nothing of theirs is there yet, and nothing is missing."""
        self.never_deployed(vertices)
        for one in map(vertex_id, vertices.split()):
            execution = self._state.vertices[one.vertex].schedule(one.subtask)
            assert execution.state is ExecutionState.SCHEDULED
        return self

    def lost(self, partitions: str) -> Failover:
        for one in map(ResultPartitionID.parse, partitions.split()):
            self._state.partitions.lose(one.vertex, [one.subtask])
        return self

    def merges_regions(self) -> bool:
        """Whether some regions would wait for each other, and are one region therefore."""
        connected = {group for group in self._state.regions.groups if len(group) > 1}
        internal = [edge for edge in self._graph.edges if edge.kind is not ResultKind.PIPELINED]
        return any({edge.producer, edge.consumer} <= set(group) for edge in internal for group in connected)

    def fails(self, vertex: str, **how: bool) -> set[str]:
        one = vertex_id(vertex)
        reach = self._state.recovery.strategy.reach({one.vertex: {one.subtask}}, **how)
        return names(in_order(self._graph, reach.restart))


def restarts(vertices: str) -> set[str]:
    return set(vertices.split())


@pytest.mark.requirement("S7-2", "S7-5", "S6-3")
@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        ("A[0]", "A[0] B[0] B[1]"),
        ("A[1]", "A[1] B[0] B[1]"),
        ("C[0]", "C[0] D[0]"),
        ("B[0]", "B[0]"),
        ("B[1]", "B[1]"),
        ("D[0]", "D[0]"),
    ],
)
def test_an_error_within_a_region_restarts_it_and_its_consumers(failed, expected):
    assert Failover(job("A*2 => B*2", "C => D")).fails(failed) == restarts(expected)


@pytest.mark.requirement("S7-3", "S7-14")
@pytest.mark.parametrize(
    ("failed", "lost", "expected"),
    [
        ("B[0]", "A/0", "A[0] B[0] B[1]"),
        ("B[0]", "A/1", "A[1] B[0] B[1]"),
        ("B[1]", "A/0", "A[0] B[0] B[1]"),
        ("B[1]", "A/1", "A[1] B[0] B[1]"),
        ("D[0]", "C/0", "C[0] D[0]"),
    ],
)
def test_a_partition_that_cannot_be_read_restarts_its_producer_too(failed, lost, expected):
    assert Failover(job("A*2 => B*2", "C => D")).lost(lost).fails(failed) == restarts(expected)


@pytest.mark.requirement("S7-3", "S7-5", "S7-12")
@pytest.mark.parametrize(
    ("lost", "failed", "expected"),
    [
        ("", "A[0]", "A[0] B[0]"),
        ("", "A[1]", "A[1] B[0]"),
        ("", "B[0]", "B[0]"),
        ("A/0", "A[0]", "A[0] B[0]"),
        ("A/0", "A[1]", "A[0] A[1] B[0]"),
        ("A/0", "B[0]", "A[0] B[0]"),
        ("A/1", "A[0]", "A[0] A[1] B[0]"),
        ("A/1", "A[1]", "A[1] B[0]"),
        ("A/1", "B[0]", "A[1] B[0]"),
        ("A/0 A/1", "A[0]", "A[0] A[1] B[0]"),
        ("A/0 A/1", "A[1]", "A[0] A[1] B[0]"),
        ("A/0 A/1", "B[0]", "A[0] A[1] B[0]"),
    ],
)
def test_every_combination_of_available_inputs(lost, failed, expected):
    assert Failover(job("A*2 => B")).lost(lost).fails(failed) == restarts(expected)


@pytest.mark.requirement("S6-5", "S6-6", "S7-2")
@pytest.mark.parametrize(
    ("lost", "expected"),
    [("", "C[0] D[0] E[0] F[0]"), ("B/0", "A[0] B[0] C[0] D[0] E[0] F[0]")],
)
def test_regions_of_several_vertices_restart_as_units(lost, expected):
    graph = job("A -> B => C -> D => E -> F")
    assert Failover(graph).lost(lost).fails("C[0]") == restarts(expected)


@pytest.mark.requirement("S7-3", "S7-4", "S7-5")
@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ("", "C1[0] C2[0]"),
        ("B/0", "B[0] C1[0] C2[0] D[0]"),
        ("B/0 A/0", "A[0] B[0] C1[0] C2[0] D[0]"),
    ],
    ids=["a: B's partition is available", "b: B's is not, A's is", "c: neither is"],
)
def test_the_backtracking_job_of_flip_1(lost, expected):
    """E-1: regions A -> B -> {C, D}; C is the region {C1, C2}, and C1 fails."""
    graph = job("A => B => C1 -> C2", "B => D")
    assert Failover(graph).lost(lost).fails("C1[0]") == restarts(expected)


@pytest.mark.requirement("S7-5", "S7-6")
@pytest.mark.parametrize("state", ["finished", "running"])
def test_consumers_restart_whatever_their_state(state):
    """E-2: D restarts in all cases, for B's second run may route other rows to it."""
    failover = Failover(job("A => B => C*2", "B => D")).lost("B/0")
    if state == "running":
        failover.running("D[0]")
    assert failover.fails("C[0]") == restarts("B[0] C[0] C[1] D[0]")


@pytest.mark.requirement("S7-9")
class TestVerticesThatWereNeverDeployed:
    """E-3."""

    def test_a_consumer_is_left_alone(self):
        assert Failover(job("A => B => C*2", "B => D")).lost("B/0").never_deployed("D[0]").fails("C[0]") == restarts(
            "B[0] C[0] C[1]"
        )

    def test_the_first_vertex_fails_with_nothing_else_deployed(self):
        graph = job("A => B => C", "B => D")
        assert Failover(graph).never_deployed("B[0] C[0] D[0]").fails("A[0]") == restarts("A[0]")

    def test_the_first_vertex_fails_with_everything_deployed(self):
        assert Failover(job("A => B => C", "B => D")).fails("A[0]") == restarts("A[0] B[0] C[0] D[0]")

    def test_the_walk_does_not_go_through_them(self):
        assert Failover(job("A => B => C")).never_deployed("B[0]").fails("A[0]") == restarts("A[0]")

    def test_nothing_restarts_when_nothing_was_deployed(self):
        assert Failover(job("A => B")).never_deployed("A[0] B[0]").fails("B[0]") == set()


@pytest.mark.requirement("S6-3")
def test_of_independent_pipelines_only_the_failed_one_restarts():
    """E-5."""
    graph = job("A*4 -1> B*4 -1> C*4")
    assert Failover(graph).fails("B[2]") == restarts("A[2] B[2] C[2]")


@pytest.mark.requirement("S6-3", "S6-6")
def test_one_pipelined_all_to_all_exchange_restarts_everything():
    """E-5."""
    graph = job("A*2 -1> B*2 -> C*2")
    assert Failover(graph).fails("A[1]") == restarts("A[0] A[1] B[0] B[1] C[0] C[1]")


@pytest.mark.requirement("S7-3")
class TestPointwise:
    def test_only_the_partitions_read_count(self):
        failover = Failover(job("A*3 =1> B*3")).lost("A/0 A/1")
        assert failover.fails("B[1]") == restarts("A[1] B[1]")

    def test_only_the_readers_restart(self):
        assert Failover(job("A*3 =1> B*3")).fails("A[2]") == restarts("A[2] B[2]")

    @pytest.mark.parametrize(("failed", "expected"), [("A[0]", "A[0] B[0]"), ("A[2]", "A[2] B[1]"), ("B[1]", "B[1]")])
    def test_several_producers_for_each_consumer(self, failed, expected):
        assert Failover(job("A*4 =1> B*2")).fails(failed) == restarts(expected)

    def test_several_consumers_for_each_producer(self):
        assert Failover(job("A*2 =1> B*4")).fails("A[1]") == restarts("A[1] B[2] B[3]")


@pytest.mark.requirement("S7-5", "S6-10")
class TestTheShuffleInsideAStage:
    graph = "A*2 => map ~> B*3 => C"

    def test_while_it_is_there_a_task_restarts_alone(self):
        assert Failover(job(self.graph)).running("B[1]").never_deployed("C[0]").fails("B[1]") == restarts("B[1]")

    def test_when_it_is_lost_all_partitions_of_the_stage_are_written_again(self):
        failover = Failover(job(self.graph)).running("B[1]").never_deployed("C[0]").lost("map/0")
        assert failover.fails("B[1]") == restarts("map[0] B[0] B[1] B[2]")

    def test_what_it_reads_is_made_again_if_it_is_gone(self):
        failover = Failover(job(self.graph)).running("B[1]").never_deployed("C[0]").lost("map/0 A/1")
        assert failover.fails("B[1]") == restarts("A[1] map[0] B[0] B[1] B[2]")

    def test_a_deterministic_stage_keeps_what_it_has_committed(self):
        graph = job(self.graph, map={"deterministic": True})
        failover = Failover(graph).running("B[1]").never_deployed("C[0]").lost("map/0")
        assert failover.fails("B[1]") == restarts("map[0] B[1]")


@pytest.mark.requirement("S7-7")
def test_the_promise_of_one_that_fails_holds_unless_what_it_reads_has_changed():
    graph = job("A => B", A={"deterministic": True})
    assert Failover(graph).fails("A[0]") == restarts("A[0]")
    assert Failover(graph).fails("A[0]", changed=True) == restarts("A[0] B[0]")


@pytest.mark.requirement("S6-10")
def test_a_cached_result_that_is_lost_is_computed_again():
    failover = Failover(job("A => K +> B*2")).lost("K/0").running("B[1]")
    assert failover.fails("B[1]") == restarts("K[0] B[0] B[1]")


@pytest.mark.parametrize(
    ("failed", "expected"),
    [("A[0]", "A[0] B[0] C[0] D[0]"), ("B[0]", "B[0] D[0]"), ("C[0]", "C[0] D[0]"), ("D[0]", "D[0]")],
)
@pytest.mark.parametrize("arrow", ["~>", "+>"])
def test_a_diamond_of_results_that_are_kept_restarts_from_the_failed_one_down(arrow, failed, expected):
    graph = job(f"A {arrow} B {arrow} D", f"A {arrow} C {arrow} D")
    assert Failover(graph).fails(failed) == restarts(expected)


@pytest.mark.requirement("S6-14", "S6-15")
@pytest.mark.parametrize("failed", ["A[1]", "B[0]"])
def test_where_nothing_reads_what_a_vertex_makes_it_restarts_alone(failed):
    """So a strategy of its own for that would do the same."""
    assert Failover(job("A*3", "B*2")).fails(failed) == restarts(failed)


@pytest.mark.requirement("S7-12")
def test_a_partition_that_is_being_made_is_not_missing():
    assert Failover(job("A*2 ~> B*2")).running("A[0] A[1] B[0] B[1]").fails("B[1]") == restarts("B[1]")


@pytest.mark.requirement("S7-12")
def test_a_consumer_drawn_in_has_its_other_inputs_checked():
    failover = Failover(job("A => C", "B => C")).lost("B/0")
    assert failover.fails("A[0]") == restarts("A[0] B[0] C[0]")


@pytest.mark.requirement("S7-11")
def test_the_walk_ends_although_its_rules_lead_back_and_forth():
    graph = job("A*2 => B*2 => C*2 => D*2", "A => C", "B => D", "A => D")
    lost = "A/0 A/1 B/0 B/1 C/0 C/1"
    everything = restarts(" ".join(f"{name}[{subtask}]" for name in "ABCD" for subtask in (0, 1)))
    assert Failover(graph).lost(lost).fails("D[0]") == everything


@pytest.mark.requirement("S6-13", "S6-20")
def test_restart_all_restarts_all_that_was_deployed():
    graph = job("A*2 => B", "C => D")
    failover = Failover(graph, FailoverStrategyKind.RESTART_ALL).never_deployed("D[0]")
    assert failover.fails("B[0]") == restarts("A[0] A[1] B[0] C[0]")


def test_the_arrows_of_the_language_are_all_different():
    """The tests above say what they mean."""
    assert len({match[0] for match in ARROW.finditer("A => B =1> C -> D -1> E ~> F ~1> G +> H +1> I")}) == 8
