"""A pipeline's driver is lost: what is planned, what is told, and what the driver that follows says it did."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rekindle.api.application_status import MOST_COUNTED, ApplicationState, RecoverySummary
from rekindle.api.job_report import MOST_SUBTASKS, JobReport, job_report
from rekindle.api.quantities import YEAR
from rekindle.api.settings import RekindleSettings
from rekindle.controller.clock import format_time
from rekindle.controller.recovery import planning
from rekindle.controller.recovery.job_facts import facts_of
from rekindle.controller.recovery.planning import job_of, planned
from rekindle.core.events import DriverLost
from rekindle.core.execution import InvariantViolation
from rekindle.core.inventory import Alike, Group, JobInventory, Reached
from rekindle.core.job_graph import ResultKind
from rekindle.core.ranges import Ranges, ranges_of
from rekindle.core.recovery_plan import plan_of
from tests.unit.controller.test_driver_facts import OUT_OF_SERVICE
from tests.unit.controller.world import RUNNING, SUCCEEDED, World, failed, manifest, node
from tests.unit.core.dsl import Run, job
from tests.unit.core.test_failover_oracle import graphs

CORE = RekindleSettings().to_core()
STORED = {"storage": {"claimName": "results"}}


class Pipeline(World):
    """Of a stage of three partitions, and one of four that shuffles; its drivers tell of it what is so."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(body=manifest(**({"recovery": STORED} | spec)))
        self.run = Run(job("A*3 => m", "m ~> B*4")).submit()
        self.settle()
        self.driver_is(RUNNING)
        self.settle()

    def tell(self, recovery: Any = None, first_task_at: float | None = None) -> None:
        seconds = {"A": 10.0, "B": 20.0}
        self.hear(job_report(self.run.job_graph, self.run.graph.inventory(), seconds, recovery, first_task_at))

    def hear(self, report: JobReport | None) -> None:
        self.jobs[self.status.driver_info.pod_uid] = facts_of(report)
        self.settle()

    def lose_driver(self, status: dict[str, Any] | None = None) -> None:
        self.driver_is(status or failed(137))
        self.settle()
        self.now += 600
        self.settle()

    def follow(self, recovery: Any = None) -> None:
        """The next driver runs, and tells."""
        self.driver_is(RUNNING)
        self.settle()
        self.tell(recovery)

    def own_plan(self) -> Any:
        """What the next driver does about it, by the store."""
        return plan_of(self.run.graph, self.run.graph.handle(DriverLost("gone"), self.now))

    @property
    def last(self) -> RecoverySummary | None:
        return self.status.recovery.last

    @property
    def recovering(self) -> tuple[str, str]:
        found = self.status.condition("Recovering")
        return (found.status, found.reason) if found is not None else ("", "")

    def messages(self, reason: str) -> list[str]:
        return [message for _, said, message in self.said if said == reason]


def half_done(**spec: Any) -> Pipeline:
    """All of A, the shuffle, and two of B."""
    world = Pipeline(**spec)
    for name in ("A", "m", "B[0]", "B[1]"):
        world.run.finish(name)
    world.tell()
    return world


def test_the_status_shows_what_there_is():
    world = half_done()
    shown = [(one.name, one.partitions, one.finished, one.running) for one in world.status.recovery.stages]
    assert shown == [("A", 3, 3, 0), ("m", 1, 1, 0), ("B", 4, 2, 2)]
    report = job_of(world.status.recovery)
    assert report is not None
    assert report.inventory() == world.run.graph.inventory()


@pytest.mark.requirement("S6-21", "S6-22", "S7-9")
def test_the_loss_of_a_driver_is_planned_before_the_next_one_begins_and_confirmed_by_it():
    world = half_done()
    world.lose_driver()
    assert world.state() is ApplicationState.SUBMITTED
    assert world.last is not None
    assert world.last.restarted == {"m": "0", "B": "0-3"}
    assert (world.last.attempt, world.last.restarted_vertices, world.last.reused_partitions) == (2, 5, 3)
    assert (world.last.expected_task_seconds, world.last.saved_task_seconds) == (80, 30)
    assert "SIGKILL" in world.last.cause
    assert world.recovering == ("True", "RecoveryPlanned")
    assert world.messages("RecoveryPlanned") == [
        "attempt 2: m[0], B[0-3] again, 3 result partitions stay; some 80 task seconds are left"
    ]
    world.follow(world.own_plan())
    assert world.state() is ApplicationState.RUNNING
    assert world.last.as_planned is True
    assert world.recovering == ("False", "Recovered")
    assert world.messages("JobRecovered") == ["m[0], B[0-3] again, 3 result partitions stay"]


def test_how_long_each_phase_of_a_recovery_took_is_told():
    """The driver is seen to be lost 4 s after its end, the next one runs 600 s later, and a task 21 s after that."""
    world = half_done()
    lost = world.now + 10
    world.now = lost + 4
    world.lose_driver(failed(137, at=lost))
    assert world.last is not None
    assert (world.last.lost_at, world.last.noticed_after_seconds) == (format_time(lost), 4)
    plan = world.own_plan()
    world.follow(plan)
    assert world.last.driver_after_seconds == 604
    assert world.last.first_task_after_seconds is None
    assert world.messages("TasksResumed") == []
    for later in (21.2, 22.0):
        world.tell(plan, lost + 604 + later)
        assert world.last.first_task_after_seconds == 625
    assert world.messages("TasksResumed") == [
        "the first task of attempt 2 began 625 s after the driver before was lost: noticed after 4 s, "
        "the next driver ran after 604 s"
    ]
    assert world.messages("JobRecovered") == ["m[0], B[0-3] again, 3 result partitions stay"]


def test_a_first_task_that_is_told_with_the_recovery_counts_too():
    world = half_done()
    world.lose_driver(failed(137, at=world.now))
    plan = world.own_plan()
    world.driver_is(RUNNING)
    world.settle()
    world.tell(plan, 1.0)  # a driver whose clock is behind
    assert world.last is not None
    assert (world.last.as_planned, world.last.first_task_after_seconds) == (True, 0)


def test_when_a_driver_was_lost_is_known_also_when_its_pod_is_gone():
    world = half_done()
    lost = world.now
    world.driver_is(failed(137, at=lost))
    world.settle()
    world.pods.clear()
    world.settle()
    world.now += 600
    world.settle()
    assert world.last is not None
    assert (world.last.lost_at, world.last.noticed_after_seconds) == (format_time(lost), 0)


def test_a_driver_on_a_node_that_is_lost_was_lost_when_that_fell_silent():
    world = half_done()
    silent = world.now
    world.node_is(node(ready="Unknown", since=silent))
    world.settle()
    world.now += 70
    world.node_is(node(ready="Unknown", since=silent, taints=OUT_OF_SERVICE))
    world.settle()
    world.now += 600
    world.settle()
    assert world.last is not None
    assert (world.last.lost_at, world.last.noticed_after_seconds) == (format_time(silent), 70)


def test_what_a_driver_tells_in_its_last_moments_is_told():
    world = half_done()
    world.lose_driver(failed(137, at=world.now))
    plan = world.own_plan()
    world.driver_is(RUNNING)
    world.settle()
    report = job_report(world.run.job_graph, world.run.graph.inventory(), {}, plan, world.now + 20)
    world.jobs[world.status.driver_info.pod_uid] = facts_of(report)
    world.driver_is(SUCCEEDED)
    world.settle()
    assert world.state() is ApplicationState.COMPLETED
    assert world.last is not None
    assert (world.last.as_planned, world.last.first_task_after_seconds) == (True, 620)
    assert len(world.messages("JobRecovered")) == len(world.messages("TasksResumed")) == 1


def test_of_a_driver_whose_end_nobody_tells_no_seconds_are_told():
    world = half_done()
    world.lose_driver()
    world.follow(world.own_plan())
    world.tell(world.own_plan(), world.now)
    assert world.last is not None
    assert (world.last.lost_at, world.last.noticed_after_seconds, world.last.driver_after_seconds) == (None,) * 3
    assert world.last.first_task_after_seconds is None


def test_nor_are_those_for_which_an_application_was_suspended():
    world = half_done()
    world.edit(suspend=True)
    world.driver_is(failed(143, at=world.now))
    world.settle()
    world.now += 3600
    world.edit(suspend=False)
    world.settle()
    assert world.last is not None
    assert (world.last.attempt, world.last.lost_at) == (2, None)


def test_the_plan_is_made_of_what_was_told_last():
    """The status has what the driver told some seconds before it was seen to be lost."""
    world = Pipeline()
    world.tell()
    world.driver_is(failed(137))
    world.settle()
    world.run.finish("A")
    report = job_report(world.run.job_graph, world.run.graph.inventory(), {})
    world.jobs[world.status.driver_info.pod_uid] = facts_of(report)
    world.now += 600
    world.settle()
    assert world.last is not None
    assert (world.last.restarted, world.last.reused_partitions) == ({"m": "0", "B": "0-3"}, 3)


def test_the_store_wins_over_the_plan_and_the_difference_is_told():
    world = half_done()
    world.run.loses("A/1")  # of which the operator has not heard
    world.lose_driver()
    world.follow(world.own_plan())
    assert world.last is not None
    assert world.last.as_planned is False
    [said] = world.messages("JobRecovered")
    assert said.endswith("; planned was: m[0], B[0-3] again, 3 result partitions stay")
    assert world.last.restarted != {"m": "0", "B": "0-3"}


def test_a_driver_that_begins_anew_says_so():
    world = half_done()
    world.lose_driver()
    world.follow(None)
    assert world.last is not None
    assert (world.last.as_planned, world.last.saved_task_seconds) == (False, 0)
    assert world.messages("JobRecovered") == ["the driver has found nothing to go on with, and begins anew"]


def test_it_is_told_once():
    world = half_done()
    world.lose_driver()
    world.follow(world.own_plan())
    world.tell(None)
    assert len(world.messages("JobRecovered")) == 1


def test_where_the_store_does_not_outlive_the_driver_nothing_is_planned():
    world = half_done(recovery={}, speculation={"enabled": True})
    world.lose_driver()
    assert world.last is None
    assert world.recovering == ("False", "NothingKept")


@pytest.mark.parametrize("suspended", [False, True])
def test_what_runs_again_because_it_has_ended_begins_anew(suspended):
    world = half_done(restartPolicy={"type": "Always"})
    world.driver_is(SUCCEEDED)
    world.settle()
    if suspended:
        world.edit(suspend=True)
        world.settle()
        world.edit(suspend=False)
    world.now += 600
    world.settle()
    assert (world.status.attempt, world.last, job_of(world.status.recovery)) == (2, None, None)
    assert suspended or world.recovering == ("", "")


def test_an_edited_program_is_another_job():
    world = half_done()
    world.edit(arguments=["other"])
    world.settle()
    world.lose_driver()  # before it has told anything
    assert (world.status.attempt, world.last) == (3, None)


def test_what_the_driver_of_an_edited_program_tells_confirms_no_plan():
    world = half_done()
    world.lose_driver()
    world.edit(arguments=["other"])
    world.settle()
    world.follow(None)
    assert world.status.attempt == 3
    assert world.last is not None
    assert (world.last.attempt, world.last.as_planned) == (2, None)
    assert world.messages("JobRecovered") == []


def test_a_driver_that_is_lost_before_it_tells_changes_nothing_of_what_is_there():
    world = half_done()
    world.lose_driver()
    first = world.last
    world.lose_driver()
    assert first is not None
    assert world.last is not None
    assert (world.last.attempt, world.last.restarted) == (3, first.restarted)


def test_an_operator_that_begins_anew_plans_from_the_status():
    world = half_done()
    world.jobs.clear()
    world.lose_driver()
    assert world.last is not None
    assert world.last.restarted == {"m": "0", "B": "0-3"}


ENDS = {
    "Completed": lambda world: world.driver_is(SUCCEEDED),
    "Suspending": lambda world: world.edit(suspend=True),
    "SpecEdited": lambda world: world.edit(arguments=["other"]),
    "SpecInvalid": lambda world: (world.edit(image=None), world.driver_is(failed(1))),
    "Error": lambda world: world.driver_is(failed(1)),
}


@pytest.mark.parametrize("reason", ENDS)
def test_an_end_ends_the_recovery(reason):
    world = half_done()
    world.lose_driver()
    world.driver_is(RUNNING)
    world.settle()
    assert world.recovering == ("True", "RecoveryPlanned")
    ENDS[reason](world)
    world.settle()
    assert world.recovering == ("False", reason)


def test_a_job_that_has_become_too_large_is_not_waited_for():
    world = half_done()
    world.lose_driver()
    world.driver_is(RUNNING)
    world.settle()
    world.hear(None)
    assert world.recovering == ("False", "NotTold")
    world.lose_driver()
    assert world.last is not None
    assert world.last.attempt == 2


def test_a_driver_may_tell_of_a_state_that_no_job_comes_to():
    """A driver is user code."""
    world = half_done()
    odd = {"reached": "WAITING", "awaited": True, "missing": True, "version": 9, "subtasks": [[0, 3]]}
    vertices = [{"name": name, "parallelism": 4, "groups": [odd]} for name in "AB"]
    edge = {"producer": "A", "consumer": "B", "kind": "EPHEMERAL", "pattern": "ALL_TO_ALL", "held": [[0, 3]]}
    world.hear(JobReport.model_validate_json(json.dumps({"name": "j", "vertices": vertices, "edges": [edge]})))
    world.lose_driver()
    assert (world.state(), world.status.attempt) == (ApplicationState.SUBMITTED, 2)


@st.composite
def reports(draw: st.DrawFn) -> JobReport:
    """Any that is taken, whatever no job comes to."""
    graph = draw(graphs())
    graph = replace(graph, edges=tuple(one for one in graph.edges if one.kind is not ResultKind.PIPELINED))

    def some(count: int) -> Ranges:
        return ranges_of(draw(st.sets(st.integers(0, count - 1))))

    alike = st.builds(Alike, st.sampled_from(Reached), st.integers(1, 3), st.booleans(), st.booleans(), st.booleans())
    groups = {}
    for vertex in graph.vertices:
        of_subtask = draw(st.lists(alike, min_size=vertex.parallelism, max_size=vertex.parallelism))
        groups[vertex.name] = tuple(Group(one, ((place, place),)) for place, one in enumerate(of_subtask))
    held = {edge: one for edge in graph.edges if (one := some(graph.vertex(edge.consumer).parallelism))}
    released = frozenset(draw(st.sets(st.sampled_from(graph.order))))
    report = job_report(graph, JobInventory(groups, held, released), {})
    assume(report is not None)
    assert report is not None
    return report


@given(reports())
def test_of_whatever_a_driver_tells_there_is_a_plan_or_none(report):
    plan = planned(report, CORE, 2, "gone", 0.0)
    assert plan is None or plan.restarted_vertices <= sum(one.parallelism for one in report.vertices)


def test_where_nothing_can_be_planned_the_next_driver_begins_all_the_same(monkeypatch):
    def broken(*_: object) -> None:
        raise InvariantViolation("it contradicts itself")

    world = half_done()
    monkeypatch.setattr(planning, "plan_driver_lost", broken)
    world.lose_driver()
    assert (world.state(), world.status.attempt, world.last) == (ApplicationState.SUBMITTED, 2, None)


def test_the_status_stays_small_whatever_is_told():
    world = half_done()
    vertices = [
        {"name": f"{number:0>250}", "parallelism": 100, "groups": [{"reached": "DEPLOYED", "subtasks": [[0, 99]]}]}
        for number in range(500)
    ]
    report = JobReport.model_validate_json(json.dumps({"name": "j", "vertices": vertices}))
    world.hear(report)
    assert len(world.status.recovery.stages) == 200
    assert world.status.recovery.job == {}
    plan = planned(report, CORE, 2, "gone", 0.0)
    assert plan is not None
    assert (len(plan.restarted), plan.restarted_vertices) == (200, 50_000)
    assert len(world.status.model_dump_json()) < 512 * 1024


def test_what_is_left_may_take_longer_than_a_status_can_say():
    vertex = {"name": "A", "parallelism": MOST_SUBTASKS, "seconds": YEAR}
    report = JobReport.model_validate_json(json.dumps({"name": "j", "vertices": [vertex]}))
    plan = planned(report, CORE, 2, "gone", 0.0)
    assert plan is not None
    assert plan.expected_task_seconds == MOST_COUNTED


def test_an_inventory_that_somebody_has_changed_is_not_believed():
    world = half_done()
    recovery = world.status.recovery
    for wrong in ({"name": 1}, {**recovery.job, "vertices": [{"name": "A", "parallelism": 0}]}):
        assert job_of(recovery.model_copy(update={"job": wrong})) is None
    world.jobs.clear()
    fewer = {**recovery.job, "vertices": [{**one, "parallelism": 1} for one in recovery.job["vertices"]]}
    world.status = world.status.model_copy(update={"recovery": recovery.model_copy(update={"job": fewer})})
    world.lose_driver()
    assert (world.state(), world.status.attempt) == (ApplicationState.SUBMITTED, 2)
    assert world.last is None
