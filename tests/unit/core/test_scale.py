"""Groups and not edges: 10,000 producers by 10,000 consumers, without looking at 100,000,000 pairs."""

import pytest

from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.graph import ExecutionGraph
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.core.job_graph import JobGraph
from rekindle.core.options import BlocklistOptions, FailoverOptions, SpeculationOptions
from tests.unit.core.dsl import Run, job
from tests.unit.core.test_failover import Failover

N = 10_000


@pytest.fixture
def asked(monkeypatch):
    """How often somebody asked who is on the other side of an exchange, and how many that were."""
    count = {"asked": 0, "answered": 0}

    def counting(method):
        def counted(self, edge, subtask):
            answer = method(self, edge, subtask)
            count["asked"] += 1
            count["answered"] += len(answer)
            return answer

        return counted

    monkeypatch.setattr(JobGraph, "producers", counting(JobGraph.producers))
    monkeypatch.setattr(JobGraph, "consumers", counting(JobGraph.consumers))
    return count


@pytest.mark.requirement("S7-1", "S7-5")
def test_a_region_search_asks_about_no_single_pair(asked):
    restarted = Failover(job(f"A*{N} => B*{N}")).lost("A/7").fails("B[5]")
    assert len(restarted) == N + 1
    assert asked["asked"] == 0


@pytest.mark.requirement("S7-5")
def test_pointwise_it_asks_once_for_each_vertex(asked):
    restarted = Failover(job(f"A*{N} =1> B*{N} =1> C*{N}")).lost("A/7").fails("B[7]")
    assert restarted == {"A[7]", "B[7]", "C[7]"}
    assert asked["asked"] < 10


@pytest.mark.requirement("S7-1")
def test_to_lose_a_whole_result_asks_about_no_single_pair(asked):
    run = Run(job(f"A*{N} => B*2")).submit()
    for subtask in range(N):
        attempt = ExecutionAttemptID(ExecutionVertexID("A", subtask), 0)
        run.graph.handle(ev.AttemptFinished(attempt, 1.0, ev.PartitionOutput(1, 1)), 1.0)
    lost = tuple(ResultPartitionID("A", subtask) for subtask in range(N))
    answer = run.graph.handle(ev.PartitionsLost(lost, "gone"), 2.0)
    (restart,) = [one for one in answer if isinstance(one, act.Restart)]
    assert len(restart.vertices) == N + 2
    assert asked["asked"] == 0


def test_a_job_of_that_size_runs_loses_a_partition_and_its_driver():
    graph = ExecutionGraph(
        job(f"A*{N} => B*{N}"),
        speculation=SpeculationOptions(),
        failover=FailoverOptions(),
        blocklist=BlocklistOptions(),
    )
    graph.handle(ev.JobSubmitted(), 0.0)
    for subtask in range(N):
        attempt = ExecutionAttemptID(ExecutionVertexID("A", subtask), 0)
        graph.handle(ev.AttemptFinished(attempt, 1.0, ev.PartitionOutput(1, 1)), 1.0)
    cancel, restart, deploy = graph.handle(ev.PartitionsLost((ResultPartitionID("A", 7),), "gone"), 2.0)
    assert isinstance(cancel, act.Cancel)
    assert isinstance(restart, act.Restart)
    assert isinstance(deploy, act.Deploy)
    assert (len(cancel.attempts), len(restart.vertices), len(deploy.deployments)) == (N, N + 1, 1)
    attempt = deploy.deployments[0].attempt
    (deploy,) = graph.handle(ev.AttemptFinished(attempt, 3.0, ev.PartitionOutput(1, 1)), 3.0)
    assert isinstance(deploy, act.Deploy)
    assert len(deploy.deployments) == N
    restart, _ = graph.handle(ev.DriverLost("gone"), 4.0)
    assert isinstance(restart, act.Restart)
    assert len(restart.vertices) == N
