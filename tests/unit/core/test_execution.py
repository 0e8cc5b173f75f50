"""An execution vertex with several current executions."""

from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.core.execution import Execution, ExecutionState, InvariantViolation
from rekindle.core.execution_job_vertex import ExecutionJobVertex, ExecutionVertices, FinishingOrder
from rekindle.core.execution_vertex import ExecutionVertex
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.core.job_graph import JobVertex

VERTEX = ExecutionVertexID("delays", 3)
PATHS = {
    "CREATED": "",
    "SCHEDULED": "SCHEDULED",
    "DEPLOYING": "SCHEDULED DEPLOYING",
    "INITIALIZING": "SCHEDULED DEPLOYING INITIALIZING",
    "RUNNING": "SCHEDULED RUNNING",
    "FINISHED": "SCHEDULED RUNNING FINISHED",
    "CANCELING": "SCHEDULED RUNNING CANCELING",
    "CANCELED": "SCHEDULED RUNNING CANCELED",
    "FAILED": "SCHEDULED RUNNING FAILED",
}


def vertex_with(*states: str) -> ExecutionVertex:
    """A vertex with one execution in each of these states, the first created first."""
    vertex = ExecutionVertex(VERTEX, 0.0)
    for _ in states[1:]:
        vertex.create(1.0, speculative=True)
    for execution, state in zip(vertex.executions, states, strict=True):
        for step in PATHS[state].split():
            execution = execution.to(ExecutionState(step))
        vertex.put(execution)
    return vertex


@pytest.mark.requirement("S2-18", "S2-20", "S2-21", "S2-22", "S2-23")
@pytest.mark.parametrize(
    ("states", "represented_by"),
    [
        (("RUNNING", "DEPLOYING"), 0),
        (("DEPLOYING", "RUNNING"), 1),
        (("RUNNING", "RUNNING"), 0),
        (("RUNNING", "FINISHED"), 1),
        (("FAILED", "CANCELING"), 1),
        (("CANCELED", "FAILED"), 1),
        (("CREATED", "SCHEDULED", "DEPLOYING"), 2),
        (("CANCELING", "CREATED"), 1),
        (("INITIALIZING", "DEPLOYING", "INITIALIZING"), 0),
    ],
)
def test_the_execution_likeliest_to_finish_represents_the_vertex(states, represented_by):
    """E-12."""
    assert vertex_with(*states).representative.attempt_id.attempt == represented_by


@pytest.mark.requirement("S2-23")
def test_the_ranking_of_all_states():
    going_well = ["FINISHED", "RUNNING", "INITIALIZING", "DEPLOYING", "SCHEDULED", "CREATED"]
    ranking = [*going_well, "CANCELING", "FAILED", "CANCELED"]
    for place, better in enumerate(ranking):
        for worse in ranking[place + 1 :]:
            assert vertex_with(worse, better).representative.state == better


def test_what_has_not_ended_cannot_leave():
    vertex = vertex_with("FAILED", "RUNNING")
    with pytest.raises(InvariantViolation, match=r"delays\[3\]#1 has not ended"):
        vertex.drop(vertex.executions[1].attempt_id)
    vertex.drop(vertex.executions[0].attempt_id)
    assert [one.attempt_id.attempt for one in vertex.executions] == [1]


@pytest.mark.requirement("S2-29")
def test_which_states_can_finish():
    can = {state for state in PATHS if vertex_with(state).can_finish}
    assert can == {"CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED"}


@pytest.mark.requirement("S2-15", "S2-16")
def test_a_new_execution_joins_the_current_ones():
    vertex = vertex_with("RUNNING")
    assert vertex.representative.created_at == 0.0
    made = vertex.create(7.5, speculative=True)
    assert [one.attempt_id.attempt for one in vertex.executions] == [0, 1]
    assert (made.state, made.created_at, made.speculative) == (ExecutionState.CREATED, 7.5, True)
    assert vertex.current(made.attempt_id) == made
    assert vertex.current(ExecutionAttemptID(VERTEX, 9)) is None


@pytest.mark.requirement("S2-32", "S2-33")
def test_an_ended_execution_leaves_unless_it_is_the_last():
    vertex = vertex_with("FAILED", "FAILED")
    for execution in vertex.executions:
        vertex.drop(execution.attempt_id)
    assert [str(one.attempt_id) for one in vertex.executions] == ["delays[3]#1"]


@pytest.mark.requirement("S2-24", "S7-17")
def test_a_reset_begins_a_new_version_and_goes_on_counting_attempts():
    vertex = vertex_with("RUNNING", "RUNNING")
    fresh = vertex.reset(9.0)
    assert vertex.executions == (fresh,)
    assert (str(fresh.attempt_id), fresh.speculative, vertex.version) == ("delays[3]#2", False, 2)
    assert vertex.of_this_version(ExecutionAttemptID(VERTEX, 0)) is None


@pytest.mark.requirement("S2-24")
def test_a_retry_is_a_new_attempt_of_the_same_version():
    vertex = vertex_with("FAILED")
    fresh = vertex.retry(9.0)
    assert vertex.executions == (fresh,)
    assert (str(fresh.attempt_id), fresh.speculative, vertex.version) == ("delays[3]#1", False, 1)
    past = vertex.of_this_version(ExecutionAttemptID(VERTEX, 0))
    assert past is not None
    assert past.state is ExecutionState.FAILED


def test_one_that_was_given_up_and_has_finished_after_all_is_the_oldest_again():
    vertex = vertex_with("FAILED")
    past = vertex.representative
    vertex.retry(9.0)
    vertex.put(past.finished(at=10.0))
    assert [one.attempt_id.attempt for one in vertex.executions] == [0, 1]


@pytest.mark.requirement("S1-15", "S1-16", "S1-17", "S1-18")
@pytest.mark.parametrize(
    ("state", "seconds"),
    [
        ("CREATED", 0.0),
        ("SCHEDULED", 0.0),
        ("DEPLOYING", 61.0),
        ("INITIALIZING", 61.0),
        ("RUNNING", 61.0),
        ("FINISHED", 20.0),
        ("CANCELING", 0.0),
        ("FAILED", 0.0),
        ("CANCELED", 0.0),
    ],
)
def test_the_execution_time_runs_from_deploying(state, seconds):
    """E-11: 50 s of waiting for a slot and 61 s since DEPLOYING are 61 s."""
    deployed_at = None if state in ("CREATED", "SCHEDULED") else 50.0
    finished_at = 70.0 if state == "FINISHED" else None
    attempt = ExecutionAttemptID(VERTEX, 0)
    execution = Execution(attempt, ExecutionState(state), 0.0, False, deployed_at, finished_at)
    assert execution.execution_time(now=111.0) == seconds


def test_what_is_known_of_an_execution_outlives_its_states():
    """A failed one may turn out to have finished, and then counts with its time."""
    deployed = vertex_with("SCHEDULED").representative.deployed("n1", at=50.0, input_bytes=7)
    finished = deployed.to(ExecutionState.CANCELING).to(ExecutionState.CANCELED).finished(at=70.0)
    assert finished == replace(deployed, state=ExecutionState.FINISHED, finished_at=70.0)
    assert (finished.node, finished.input_bytes, finished.execution_time(now=111.0)) == ("n1", 7, 20.0)


@pytest.mark.parametrize(("state", "step"), [("FINISHED", "RUNNING"), ("CREATED", "FINISHED"), ("FAILED", "RUNNING")])
def test_an_impossible_step_is_a_defect(state, step):
    execution = vertex_with(state).representative
    with pytest.raises(InvariantViolation, match=f"cannot go from {state} to {step}"):
        execution.to(ExecutionState(step))


@pytest.mark.requirement("S2-46")
def test_two_finished_executions_are_a_defect():
    with pytest.raises(InvariantViolation, match="2 finished"):
        vertex_with("FINISHED", "FINISHED").validate()


def test_no_execution_at_all_is_a_defect():
    vertex = vertex_with("RUNNING")
    vertex._current.clear()
    with pytest.raises(InvariantViolation, match=r"delays\[3\] has no current execution"):
        vertex.validate()


@pytest.mark.parametrize("attribute", [{"_next_attempt": 0}, {"_past": {0: vertex_with("FAILED").representative}}])
def test_an_attempt_number_that_is_used_twice_is_a_defect(attribute):
    vertex = vertex_with("RUNNING")
    vertex.validate()
    for name, value in attribute.items():
        setattr(vertex, name, value)
    with pytest.raises(InvariantViolation, match=r"delays\[3\]: an attempt number is used twice"):
        vertex.validate()


def test_a_running_sibling_of_a_finished_execution_is_a_defect():
    with pytest.raises(InvariantViolation, match="still runs"):
        vertex_with("RUNNING", "FINISHED").validate()


class TestTheFinishingOrder:
    """How long tasks took, the first to finish first."""

    @staticmethod
    def finished(subtask: int, at: float, seconds: float | None) -> Execution:
        attempt = ExecutionAttemptID(ExecutionVertexID("delays", subtask), 0)
        deployed_at = None if seconds is None else at - seconds
        return Execution(attempt, ExecutionState.FINISHED, 0.0, False, deployed_at, at)

    @pytest.mark.requirement("S1-12", "S1-23", "S1-24", "S1-25")
    @given(
        ends=st.lists(st.tuples(st.integers(0, 50), st.none() | st.integers(0, 50), st.booleans()), max_size=20),
        first=st.integers(0, 20),
    )
    def test_whatever_finishes_and_is_reset_the_typical_time_is_that_of_the_first(self, ends, first):
        order, now = FinishingOrder(), dict[int, tuple[float, float | None]]()
        for subtask, (at, seconds, reset) in enumerate(ends):
            order.add(self.finished(subtask, at, seconds))
            now[subtask] = (at, seconds)
            if reset:
                order.reset(subtask // 2)
                now.pop(subtask // 2, None)
            if len(now) >= first:
                sample = sorted((at, subtask, seconds) for subtask, (at, seconds) in now.items())[:first]
                times = [seconds for _, _, seconds in sample if seconds is not None]
                assert order.typical(first) == pytest.approx(median(times) if times else 0.0)

    def test_more_than_have_finished_cannot_be_asked_about(self):
        order = FinishingOrder()
        order.add(self.finished(0, 1.0, 1.0))
        order.add(self.finished(1, 2.0, 1.0))
        order.reset(1)
        with pytest.raises(ValueError, match="1 have finished, 2 are asked about"):
            order.typical(2)


def test_an_unknown_vertex_is_a_key_error():
    vertices = ExecutionVertices([ExecutionJobVertex.create(JobVertex("delays", 3))])
    for unknown in (ExecutionVertexID("delays", 3), ExecutionVertexID("delays", -1), ExecutionVertexID("x", 0)):
        assert vertices.find(unknown) is None
        with pytest.raises(KeyError, match="no execution vertex"):
            vertices.task(unknown)
