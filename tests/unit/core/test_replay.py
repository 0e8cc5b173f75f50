"""Whatever happens, in whatever order: nothing raises, the state holds, and the same again gives the same."""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.core import events as ev
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.core.options import BlocklistOptions, FailoverOptions, FailoverStrategyKind, SpeculationOptions
from tests.unit.core.dsl import Run, job, replay

SHAPES = [
    lambda flags: job("A*2 => B*2 => C", A=flags),
    lambda flags: job("A*2 => m ~> B*3 => D", "B => E", m=flags, B=flags),
    lambda flags: job("A*2 =1> B*2 -1> C*2 => D", "A => D", A=flags),
    lambda flags: job("A => K +> B*2 => D", "K +> C => D", K=flags, A=flags),
    lambda flags: job("A*3 -> B*2", "C*2 =1> D*2 => E", C=flags),
    lambda flags: job("A => B => C", "A => D", "B => E", B=flags),
    lambda flags: job("A => B => C", "Q => B => E", B=flags, Q=flags),
    lambda flags: job("K +> B*2 => E", "A => B", "A => D", K=flags),
]
NODES = ["n1", "n2", "n3", "n4"]


@st.composite
def runs(draw: st.DrawFn) -> Run:
    flags = {"deterministic": draw(st.sampled_from([None, None, True, False]))}
    strategy = draw(st.sampled_from([FailoverStrategyKind.REGION] * 4 + [FailoverStrategyKind.RESTART_ALL]))
    failures = draw(st.sampled_from([50, 1]))
    return Run(
        draw(st.sampled_from(SHAPES))(flags),
        speculation=SpeculationOptions(draw(st.booleans()), draw(st.integers(1, 3))),
        failover=FailoverOptions(strategy, failures, draw(st.sampled_from([None, 5]))),
        blocklist=BlocklistOptions(Fraction(1, 2)),
    )


Dice = tuple[int, int, int]
"""Three numbers that choose an event: Hypothesis draws and shrinks lists of these quickly."""

dice = st.tuples(st.integers(0, 33), st.integers(0, 59), st.integers(0, 11))
rolls_of_dice = st.lists(dice, min_size=30, max_size=60)  # a long list by default; a Tick does nothing


def some_vertex(run: Run, number: int, *, finished: bool) -> ExecutionVertexID:
    """Mostly one of the job that has (not) finished; now and then any, or one of no job."""
    tasks = [task for name in run.job_graph.order for task in run.graph.execution_vertices(name)]
    likely = [task.id for task in tasks if task.is_finished == finished and task.representative.state != "CREATED"]
    ids = [task.id for task in tasks] + [ExecutionVertexID("A", 9), ExecutionVertexID("nowhere", 0)]
    return likely[number % len(likely)] if likely and number < 48 else ids[number % len(ids)]


def some_attempt(run: Run, vertex: ExecutionVertexID, other: int) -> ExecutionAttemptID:
    """Mostly a current one."""
    known = vertex.vertex in run.job_graph and vertex.subtask < run.job_graph.vertex(vertex.vertex).parallelism
    if not known or other >= 10:
        return ExecutionAttemptID(vertex, other % 4)
    executions = run.graph.current_executions(vertex)
    return executions[other % len(executions)].attempt_id


def some_event(run: Run, roll: Dice) -> ev.Event:
    kind, number, other = roll
    attempt = some_attempt(run, some_vertex(run, number, finished=False), other)
    done = some_vertex(run, number, finished=True)
    partition = ResultPartitionID(done.vertex, done.subtask)
    node, now = NODES[number % len(NODES)], run.now
    digest = (None, "y", *"xxxxxxxxxx")[other]
    failure = ev.FailureCause(list(ev.FailureKind)[other % 3], "it broke", partition if other % 2 else None)
    both = (ResultPartitionID("A", 0), ResultPartitionID("A", 1))
    choice: list[ev.Event] = [
        ev.Tick(),
        *[ev.AttemptFinished(attempt, now, ev.PartitionOutput(1, 1, digest, node))] * 18,
        *[ev.PartitionsLost((partition,), "gone")] * 3,
        ev.PartitionsLost((partition, *both), "gone"),
        ev.AttemptDeployed(attempt, node, now),
        ev.AttemptFailed(attempt, failure),
        ev.AttemptCanceled(attempt),
        ev.NodeLost(node, "gone"),
        ev.DriverLost("gone"),
        ev.SlowTasksFound(((attempt.vertex_id, (attempt,), "slow"),) if other else ()),
        ev.NodeBlockRequested(node, now + number, "a person"),
        ev.NodeUnblockRequested(node, "a person"),
        ev.NodesChanged(tuple(NODES[: other % 5])),
        ev.RerunRequested(done.vertex, "a person"),
        ev.JobSubmitted(),
    ]
    return choice[kind]


def play(run: Run, rolls: list[Dice]) -> None:
    run.submit()
    for roll in rolls:
        run.now += (0.0, 1.0, 45.0)[roll[2] % 3]
        run.see(some_event(run, roll))


def all_goes_well(run: Run, digests: Sequence[str | None] = ("x",)) -> None:
    """From here on every attempt that is to run runs, and finishes; the digests take turns by attempt."""
    for _ in range(100):
        if run.graph.is_done or run.graph.has_failed:
            return
        for name in run.job_graph.order:
            for subtask in run.graph.unfinished(name):
                for one in run.graph.current_executions(ExecutionVertexID(name, subtask)):
                    run.finish(str(one.attempt_id), digests[one.attempt_id.attempt % len(digests)])


happening = settings()


@happening
@given(run=runs(), rolls=rolls_of_dice)
def test_replaying_the_same_events_gives_the_same_state_and_actions(run, rolls):
    """Each event also goes through its record, and the state is checked after each."""
    play(run, rolls)
    again, answers = replay(run)
    assert answers == [answer for _, _, answer in run.journal]
    assert again.snapshot() == run.snapshot()


@pytest.mark.requirement("S7-17")
@happening
@given(run=runs(), told_later=runs(), rolls=rolls_of_dice)
def test_a_driver_that_was_told_other_options_replays_what_was_done_by_the_old_ones(run, told_later, rolls):
    """Else it would count other versions than are in the store, and take an old partition for a new one."""
    run.see(ev.OptionsGiven(**run.options, speculative=run.job_graph.order))
    play(run, rolls)
    again = Run(run.job_graph, **told_later.options)
    for event, now, answer in run.journal:
        again.now = now
        assert again.see(event) == answer
    assert again.snapshot() == run.snapshot()


@pytest.mark.requirement("S7-16", "S7-25")
@happening
@given(run=runs(), rolls=rolls_of_dice)
def test_from_wherever_it_is_a_job_comes_to_its_end_when_all_goes_well(run, rolls):
    """Nobody waits for ever for what nobody makes."""
    play(run, rolls)
    all_goes_well(run)
    assert run.graph.is_done or run.graph.has_failed


@pytest.mark.requirement("S2-6")
@happening
@given(run=runs(), rolls=rolls_of_dice)
def test_there_are_never_more_attempts_than_allowed(run, rolls):
    play(run, rolls)
    limit = run.options["speculation"].max_concurrent_executions
    for name in run.job_graph.order:
        for task in run.graph.execution_vertices(name):
            # one that was given up, and turned out to have finished, is no attempt that exists
            assert len([one for one in task.executions if one.state != "FINISHED"]) <= limit
