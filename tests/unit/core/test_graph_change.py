"""An edited pipeline: what still fits the new graph is kept, and the rest begins under names nobody has written to."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.core import events as ev
from rekindle.core.graph_change import kept_vertices
from rekindle.core.ids import ExecutionVertexID, ResultPartitionID
from rekindle.core.job_graph import DistributionPattern, JobEdge, JobGraph, JobVertex, ResultKind
from rekindle.core.options import FailoverOptions, FailoverStrategyKind
from tests.unit.core.dsl import Run, job, replay
from tests.unit.core.test_replay import SHAPES, all_goes_well, play, rolls_of_dice, runs

CHAIN = "A*2 => B*2 => C"


@pytest.mark.parametrize(
    ("new", "kept"),
    [
        (job(CHAIN), "A B C"),
        (job(CHAIN, B={"deterministic": True}), "A B C"),
        (job("A*2 => B*2 => C", "B => D"), "A B C"),
        (job("A*2 => B*2"), "A B"),
        (job("A*2 => B*3 => C"), "A"),
        (job("A*2 =1> B*2 => C"), "A"),
        (job("A*2 +> B*2 => C"), "A"),
        (job("A*2 => X*2 => B*2 => C"), "A"),
        (job("A*2 => B*2 => C", "A => C"), "A B"),
        (job("A*3 => B*2 => C"), ""),
        (job("A*2 -> B*2 => C"), ""),
        (job("Q*2 => R"), ""),
    ],
)
def test_a_vertex_is_kept_where_it_is_what_it_was_and_so_is_what_it_reads(new, kept):
    assert kept_vertices(job(CHAIN), new) == set(kept.split())


@pytest.mark.parametrize("new", [job("A -> B*2 => C"), job("A -> B -> D => C"), job("A => B => C")])
def test_a_pipelined_group_is_kept_as_a_whole_or_not_at_all(new):
    assert kept_vertices(job("A -> B => C"), new) == set()


def test_a_group_is_the_same_in_whatever_order_its_stages_are_declared():
    old, new = job("A -> B", "A -> C => D"), job("A -> C => D", "A -> B")
    assert kept_vertices(old, new) == set("ABCD")


@pytest.mark.requirement("S7-2", "S7-5")
def test_what_is_kept_is_not_made_again_and_what_is_not_begins_a_version_of_its_own():
    run = Run(job("A*2 => B*2 => C")).submit()
    run.finish("A")
    run.finish("B[0]")
    run.deploy("B[1]")
    run.now = 7.0
    promised = job("A*2 => B*3 => C => D", A={"deterministic": True})
    run.becomes(promised).restarts_nothing()
    assert tuple(one.job_vertex for one in run.graph.execution_job_vertices()) == promised.vertices
    assert {one.created_at for one in run.graph.current_executions(ExecutionVertexID("B", 0))} == {7.0}
    assert run.loses_driver().restarts_nothing().deployed == ["B[0]#1", "B[1]#1", "B[2]#1"]
    assert (run.versions("A"), run.versions("B"), run.versions("C"), run.versions("D")) == ([1, 1], [2, 2, 2], [1], [1])
    all_goes_well(run)
    assert run.graph.is_done


def test_a_name_that_comes_back_begins_a_version_that_it_never_had():
    """Else what an attempt of long ago has stored would be taken for its result."""
    run = Run(job("A => B => C")).submit()
    run.finish("A")
    run.finish("B")
    run.becomes(job("A => C"))
    run.loses_driver()
    run.becomes(job("A => B => C"))
    assert run.loses_driver().deployed == ["B[0]#1"]
    assert run.version("B[0]") == 2


@pytest.mark.requirement("S7-4", "S7-7")
def test_a_released_result_that_a_new_vertex_reads_is_made_again_and_its_old_readers_wait_for_its_digest():
    run = Run(job("A => B => C => D", "C => E")).submit()
    for name in "ABC":
        run.finish(name, "x")
    run.finish("D")
    assert "A" in {name for _, _, answer in run.journal for name in answer.released}
    run.becomes(job("A => B => C => D", "C => E", "A => N")).restarts("A[0]")
    assert run.graph.suspects() == (ExecutionVertexID("B", 0),)
    run.loses_driver()
    assert run.finish("A", "x").spared == {"B[0]"}
    again = Run(job("A => B => C => D", "C => E")).submit()
    for name in "ABC":
        again.finish(name, "x")
    again.becomes(job("A => B => C => D", "C => E", "A => N"))
    again.loses_driver()
    assert "B[0]" in again.finish("A", "another").restarted


def test_what_was_left_of_a_job_may_be_taken_out_of_it():
    run = Run(job("A => B", "A => C")).submit()
    run.finish("A")
    run.finish("B")
    run.becomes(job("A => B"))
    run.loses_driver()
    assert run.graph.is_done


def test_a_block_and_what_has_failed_stay_as_they_are():
    run = Run(job("A => B"), failover=FailoverOptions(max_failures_per_task=1)).submit().has_nodes("n1", "n2", "n3")
    run.see(ev.NodeBlockRequested("n1", 100.0, "a person"))
    run.fails("A[0]")
    run.becomes(job("A => B => C"))
    assert set(run.graph.blocked_nodes(0.0)) == {"n1"}
    run.loses_driver()
    run.fails("A[0]")
    assert run.graph.has_failed


def test_a_job_that_has_failed_may_be_mended_by_another_graph():
    run = Run(job("A => B"), failover=FailoverOptions(max_failures_per_task=0)).submit()
    run.finish("A")
    run.fails("B[0]")
    assert run.graph.has_failed
    run.becomes(job("A => C"))
    assert run.loses_driver().deployed == ["C[0]#0"]


@pytest.mark.requirement("S7-9", "S7-16")
@given(run=runs(), rolls=rolls_of_dice, more=rolls_of_dice, shape=st.sampled_from(SHAPES))
def test_whatever_has_happened_to_a_job_it_comes_to_its_end_with_another_graph(run, rolls, more, shape):
    """The state is checked after each event, and a later driver replays all of it."""
    play(run, rolls)
    begun = {
        name: max(task.version for task in run.graph.execution_vertices(name) if task.representative.state != "CREATED")
        for name in run.job_graph.order
        if any(task.representative.state != "CREATED" for task in run.graph.execution_vertices(name))
    }
    new = shape({"deterministic": None})
    kept = kept_vertices(run.job_graph, new)
    run.becomes(new)
    for name in set(new.order) - kept:
        assert min(run.versions(name)) > begun.get(name, 0)
    run.loses_driver()
    play(run, more)
    all_goes_well(run)
    assert run.graph.is_done or run.graph.has_failed
    again, answers = replay(run)
    assert answers == [answer for _, _, answer in run.journal]
    assert again.snapshot() == run.snapshot()


@given(run=runs(), rolls=rolls_of_dice, more=rolls_of_dice)
def test_the_same_graph_changes_nothing(run, rolls, more):
    play(run, rolls)
    before = seen_of(run)
    run.becomes(run.job_graph).restarts_nothing()
    assert seen_of(run) == before


def seen_of(run: Run) -> list[object]:
    """All but whether the job is done: the new driver is told so anew."""
    graph, names = run.graph, run.job_graph.order
    tasks = [(task.id, task.version, task.executions) for name in names for task in graph.execution_vertices(name)]
    return [tasks, graph.metrics(), graph.blocked_nodes(run.now), graph.suspects(), graph.inventory(), graph.has_failed]


def test_a_graph_that_is_none_is_refused_where_it_is_read():
    record = ev.to_record(ev.JobGraphChanged.to(job("A => B")))
    with pytest.raises(ValueError, match="B is no vertex"):
        ev.from_record({**record, "vertices": record["vertices"][:1]})
    assert ev.JobGraphChanged((JobVertex("A", 1),), ()).job_graph("p") == JobGraph("p", (JobVertex("A", 1),))


PROMISED = {"deterministic": True}


@pytest.mark.requirement("S7-7")
def test_a_promise_does_not_spare_those_who_have_read_other_code_of_a_result_that_is_being_made_again():
    """Its code changes in the edit for which it is made again: when the rerun is asked for it waits already."""
    run = Run(job("A => B => C => D", "C => E", A=PROMISED)).submit()
    for name in "ABC":
        run.finish(name, "x")
    run.finish("D")
    run.becomes(job("A => B => C => D", "C => E", "A => N", A=PROMISED)).restarts("A[0]")
    assert "B[0]" in run.reruns("A").restarted
    run.loses_driver()
    run.finish("A", "other")
    assert run.version("B[0]") == 2


@pytest.mark.requirement("S7-7")
def test_nor_those_who_have_read_what_is_made_of_that():
    run = Run(job("X => A => B => C => D", "C => E", X=PROMISED, A=PROMISED)).submit()
    for name in "XABC":
        run.finish(name, "x")
    run.finish("D")
    run.becomes(job("X => A => B => C => D", "C => E", "A => N", X=PROMISED, A=PROMISED)).restarts("X[0] A[0]")
    assert "B[0]" in run.reruns("X").restarted


@pytest.mark.requirement("S7-7")
def test_nor_those_who_have_read_a_result_that_was_lost_before_its_rerun_was_asked_for():
    run = Run(job("X => A => B*2", X=PROMISED, A=PROMISED)).submit()
    for name in ("X", "A", "B[0]"):
        run.finish(name, "x")
    run.loses("X/0 A/0").restarts("X[0] A[0] B[1]")
    assert "B[0]" in run.reruns("A").restarted


@pytest.mark.parametrize("strategy", FailoverStrategyKind)
def test_a_rerun_of_what_nobody_has_made_costs_nothing(strategy):
    run = Run(job("A => B => C"), failover=FailoverOptions(strategy=strategy)).submit()
    run.finish("A")
    run.reruns("C").restarts_nothing()


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
