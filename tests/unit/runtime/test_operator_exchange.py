"""What the operator tells, as the core hears of it, and what it is answered."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource

from rekindle.api.connector_report import CommitState
from rekindle.api.operator_exchange import ExchangeAnswer, ExchangeRequest, WireBlock, Wish, decode
from rekindle.api.settings import RekindleSettings
from rekindle.core.aborted_attempts import AbortedAttempts
from rekindle.core.inventory import Reached
from rekindle.core.options import BlocklistOptions, SpeculationOptions
from rekindle.core.ranges import subtasks_of
from rekindle.core.recovery_plan import RecoveryPlan
from rekindle.core.split_progress import SplitCounts, SubtaskSplits
from rekindle.pipeline import FileSink, Pipeline
from rekindle.runtime.layout import RunLayout
from rekindle.runtime.operator_exchange import OperatorExchange, asked_for
from rekindle.runtime.scheduler import Scheduler
from tests.unit.core.dsl import Answer, Run, job


class Exchanging:
    """A job master's exchange over a real core, whose executors 1 to 3 are on n1 to n3."""

    def __init__(self, share: str = "1", before: Run | None = None) -> None:
        self.core = before or Run(
            job("A*4"),
            speculation=SpeculationOptions(enabled=True, block_slow_node_duration=60.0),
            blocklist=BlocklistOptions(Fraction(share)),
        )
        self.answers: list[Answer] = []
        scheduler = Scheduler.__new__(Scheduler)
        scheduler.nodes, scheduler._hosts = {}, {"1": "10.0.0.1", "2": "10.0.0.2", "3": "10.0.0.3"}
        state: Any = SimpleNamespace(
            core=self.core.graph,
            scheduler=scheduler,
            executors={},
            open_run=SimpleNamespace(
                facts=SimpleNamespace(events=[one[:2] for one in self.core.journal]), layout=RunLayout(1)
            ),
            seen=0,
            resumed=None,
            first_task_at=None,
            commits={},
            graph=SimpleNamespace(stages=()),
            see=lambda event, now: self.answers.append(self.core.see(event)),
        )
        endpoint: Any = SimpleNamespace(request=None, answer=b"")
        self.state, self.exchange = state, OperatorExchange(state, dict)
        self.endpoint = self.exchange._endpoint = endpoint

    def hear(self, **ends: float) -> dict[str, list[str]]:
        """The operator tells of these blocks, [node -> end], and the job master looks."""
        blocks = tuple(WireBlock(node=node, end=end, cause="a person") for node, end in ends.items())
        self.endpoint.request = ExchangeRequest(blocks=blocks, nodes={"1": "n1", "2": "n2", "3": "n3"})
        return self.look()

    def look(self) -> dict[str, list[str]]:
        """What became of it."""
        self.answers.clear()
        self.exchange.learn_nodes()
        nodes = self.state.scheduler.nodes
        self.state.executors = {one: nodes.get(one, host) for one, host in self.state.scheduler._hosts.items()}
        self.core.has_nodes(*self.state.executors.values())
        self.exchange.see_blocks(self.core.now)
        told = {name: [one for answer in self.answers for one in getattr(answer, name)] for name in
                ("blocked", "unblocked", "refused")}  # fmt: skip
        return {name: nodes for name, nodes in told.items() if nodes}

    def wishes(self) -> tuple[Wish, ...]:
        self.exchange.tell(self.core.now)
        return decode(self.endpoint.answer, ExchangeAnswer).wishes


@pytest.mark.requirement("S3-7", "S3-8")
def test_a_block_is_told_once_and_its_renewal_lasts_longer():
    one = Exchanging()
    assert one.hear(n1=100.0) == {"blocked": ["n1"]}
    assert one.hear(n1=100.0) == {}
    assert len(one.answers) == 0
    one.hear(n1=200.0)
    block = one.core.graph.blocked_nodes(0.0)["n1"]
    assert (block.end, block.cause) == (200.0, "a person")


@pytest.mark.requirement("S3-14")
def test_a_block_that_is_told_of_no_more_ends_at_once():
    one = Exchanging()
    one.hear(n1=100.0, n2=100.0)
    assert one.hear(n2=100.0) == {"unblocked": ["n1"]}
    assert one.hear(n2=50.0) == {"unblocked": ["n2"], "blocked": ["n2"]}
    assert one.core.graph.blocked_nodes(0.0)["n2"].end == 50.0


@pytest.mark.requirement("S3-14")
def test_a_block_that_has_come_to_its_end_takes_none_of_the_job_masters_own_with_it():
    one = Exchanging()
    one.core.submit().deploy("A", node="n1")
    one.hear(n1=50.0)
    one.core.slow("A[3]#0")
    one.core.now = 50.0
    assert one.hear() == {}
    assert one.core.graph.blocked_nodes(50.0)["n1"].end == 60.0


def test_it_ends_by_itself_where_the_operator_is_heard_no_more():
    one = Exchanging()
    one.hear(n1=100.0)
    one.core.now = 100.0
    one.look()
    assert one.core.graph.blocked_nodes(100.0) == {}


def test_a_node_without_executors_is_blocked_when_it_has_one():
    one = Exchanging()
    assert one.hear(n9=100.0) == {}
    one.endpoint.request = one.endpoint.request.model_copy(update={"nodes": {"1": "n9"}})
    assert one.look() == {"blocked": ["n9"]}


def test_a_refusal_is_told_once_until_there_are_other_nodes():
    one = Exchanging(share="0.2")
    assert one.hear(n1=100.0, n2=100.0) == {"blocked": ["n1"], "refused": ["n2"]}
    assert one.hear(n1=100.0, n2=100.0) == {}
    one.state.scheduler._hosts |= {str(number): f"10.0.0.{number}" for number in range(4, 11)}
    assert one.look() == {"blocked": ["n2"]}


class TestWishes:
    def slow(self) -> Exchanging:
        one = Exchanging()
        one.hear()
        one.core.submit().deploy("A", node="n1")
        one.core.slow("A[3]#0")
        return one

    def test_a_block_of_its_own_is_one(self):
        assert self.slow().wishes() == (Wish(node="n1", seconds=60.0, cause="slow task A[3]: too slow"),)

    def test_they_say_which_request_had_been_taken_up(self):
        one = Exchanging()
        one.hear()
        one.endpoint.request = one.endpoint.request.model_copy(update={"number": 7})
        one.wishes()
        assert decode(one.endpoint.answer, ExchangeAnswer).number == 0
        one.look()
        one.wishes()
        assert decode(one.endpoint.answer, ExchangeAnswer).number == 7

    def test_a_block_of_the_operators_is_none(self):
        one = Exchanging()
        one.hear(n1=100.0)
        assert one.wishes() == ()

    def test_one_that_was_granted_is_none_until_it_is_renewed(self):
        one = self.slow()
        one.hear(n1=60.0)
        assert one.wishes() == ()
        one.core.now = 10.0
        one.core.slow("A[3]#0")
        assert one.wishes() == (Wish(node="n1", seconds=60.0, cause="slow task A[3]: too slow"),)

    def test_a_task_that_was_seen_before_its_node_was_known_is_on_that_node(self):
        one = Exchanging()
        one.look()
        one.core.submit().deploy("A", node="10.0.0.2")
        one.core.slow("A[3]#0")
        one.hear()
        assert [wish.node for wish in one.wishes()] == ["n2"]
        assert one.state.scheduler.executors_on({"10.0.0.2"}) == one.state.scheduler.executors_on({"n2"}) == ["2"]


@pytest.mark.requirement("S7-17")
def test_a_new_driver_knows_which_blocks_were_the_operators():
    first = Exchanging()
    first.hear(n1=100.0, n2=100.0)
    first.hear(n2=100.0)
    again = Exchanging(before=first.core)
    assert asked_for(event for event, _ in again.state.open_run.facts.events) == {"n2": 100.0}
    assert again.wishes() == ()
    assert again.hear() == {"unblocked": ["n2"]}


def test_the_job_is_told_as_it_is_but_not_worked_out_at_each_round(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    one = Exchanging(before=Run(job("A*4")).submit())

    def finished() -> int | None:
        one.exchange.tell(one.core.now)
        told = decode(one.endpoint.answer, ExchangeAnswer).job
        if told is None:
            return None
        groups = told.inventory().groups["A"]
        done = [group.subtasks for group in groups if group.alike.reached is Reached.FINISHED]
        return sum(len(list(subtasks_of(subtasks))) for subtasks in done)

    def finish(subtask: int) -> None:
        one.core.finish(f"A[{subtask}]")
        one.state.seen += 1

    assert finished() is None  # nothing has been seen yet
    finish(0)
    assert finished() == 1
    finish(1)
    now[0] += 1.0
    assert finished() == 1
    now[0] += 1.0
    assert finished() == 2


def test_the_first_task_of_a_driver_that_went_on_is_told_though_nothing_else_is_new(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    one = Exchanging(before=Run(job("A*4")).submit())
    one.state.seen, one.state.resumed = 1, RecoveryPlan()
    for first_task_at in (None, 1234.5):
        one.state.first_task_at = first_task_at
        one.exchange.tell(one.core.now)
        told = decode(one.endpoint.answer, ExchangeAnswer).job
        assert told is not None
        assert told.recovery is not None
        assert told.recovery.first_task_at == first_task_at
        now[0] += 10.0


class Ends(Exchanging):
    """Of a pipeline with a source that is read by splits and a sink."""

    def __init__(self) -> None:
        super().__init__(before=Run(job("read*2 => out*2")).submit())
        pipeline = Pipeline("p", default_partitions=2)
        pipeline.read("read", Letters, partitions=2)
        pipeline.sink(FileSink("/out"), pointwise=True, name="out")(lambda read: read)
        self.counts = SplitCounts(2, 9, 0, 0, 0, 0, 0, 0, SubtaskSplits(0, 0), SubtaskSplits(0, 0))
        self.state.graph, self.state.settings = pipeline.build(), RekindleSettings()
        self.state.aborted = AbortedAttempts()
        self.exchange._counts = lambda: {"read": self.counts}

    def told(self) -> tuple[int | None, str | None]:
        """Splits that are assigned, and how far the sink is."""
        self.exchange.tell(self.core.now)
        job = decode(self.endpoint.answer, ExchangeAnswer).job
        assert job is not None
        return job.sources[0].assigned, job.sinks[0].commit


class Letters(DataSource):
    def reader(self, schema: Any) -> Any:
        raise AssertionError("nobody reads here")


def test_splits_that_are_handed_out_are_told_though_the_core_has_seen_nothing(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    one = Ends()
    assert one.told() == (0, "Pending")
    one.counts = replace(one.counts, assigned=4)
    assert one.told() == (0, "Pending"), "not at each round"
    now[0] += 3.0
    assert one.told() == (4, "Pending")


def test_what_becomes_of_a_sink_is_told_at_once(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    one = Ends()
    assert one.told()[1] == "Pending"
    for commit in (CommitState.COMMITTING, CommitState.COMMITTED):
        one.state.commits["out"] = (commit, "")
        assert one.told()[1] == commit
