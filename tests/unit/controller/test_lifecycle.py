"""From one state to the next: what a user does, what a cluster does, and what follows."""

from dataclasses import replace

import pytest

from rekindle.api.application_status import ApplicationState as State
from rekindle.api.application_status import ApplicationStatus, FailureCause, RestartCounts
from rekindle.api.restart_policy import RestartPolicy
from rekindle.controller.clock import format_time
from rekindle.controller.decision import CleanUp, DeleteDriver, Submit
from rekindle.controller.driver_facts import vanished
from rekindle.controller.executor_facts import executor_facts
from rekindle.controller.lifecycle import decide
from rekindle.controller.restarts import Again, after_failure
from tests.unit.controller.world import (
    RUNNING,
    SUCCEEDED,
    World,
    attempt_of,
    beside_a_sidecar,
    container,
    driver,
    failed,
    manifest,
    node,
)

RETRIES = {"type": "OnFailure", "onFailureRetries": 2, "onFailureRetryInterval": 10}


def running(**spec) -> World:
    world = World(body=manifest(**spec))
    world.settle()
    world.driver_is(RUNNING)
    world.settle()
    assert world.state() is State.RUNNING
    return world


def condition(world: World, kind: str):
    return next(one for one in world.status.conditions if one.type == kind)


def test_from_nothing_to_completed():
    world = World()
    world.settle()
    assert world.state() is State.SUBMITTED
    world.driver_is(RUNNING)
    world.settle()
    world.driver_is(SUCCEEDED)
    world.settle()
    assert world.state() is State.COMPLETED
    assert [one.state for one in world.status.transitions] == [State.SUBMITTED, State.RUNNING, State.COMPLETED]
    assert [reason for _, reason, _ in world.said] == [
        "SparkApplicationSubmitted",
        "SparkDriverRunning",
        "SparkApplicationCompleted",
    ]
    assert condition(world, "Succeeded").status == "True"
    assert world.cleaned == [1]
    assert world.status.termination_time == "1970-01-01T00:16:40Z"


def test_what_spark_conf_says_over_the_speculation_block_is_told_at_submission():
    world = World(body=manifest(speculation={"enabled": True}, sparkConf={"spark.speculation.multiplier": "9"}))
    world.settle()
    told = [message for _, reason, message in world.said if reason == "SpeculationOverridden"]
    assert told == ["spec.sparkConf decides, and not spec.speculation, of spark.speculation.multiplier"]


def test_an_attempt_is_written_down_before_anything_of_it_is_made():
    world = World()
    decision = world.look()
    assert decision.status.attempt == 1
    assert decision.status.driver_info.pod_uid == ""


def test_a_failure_of_the_application_is_final_unless_a_policy_says_otherwise():
    world = running()
    world.driver_is(failed(1))
    world.settle()
    assert world.state() is State.FAILED
    assert world.status.application_state.error_message == "the driver ended with exit code 1"


def test_waits_double_until_the_budget_is_used_up():
    world = running(restartPolicy=RETRIES)
    for attempt, wait in ((2, 10), (3, 20)):
        world.driver_is(failed(1))
        assert world.settle().delay == wait
        assert world.state() is State.PENDING_RERUN
        world.now += wait
        world.settle()
        assert (world.state(), world.status.attempt) == (State.SUBMITTED, attempt)
        world.driver_is(RUNNING)
        world.settle()
    world.driver_is(failed(1))
    world.settle()
    assert world.state() is State.FAILED
    assert world.status.application_state.error_message == (
        "the driver ended with exit code 1; all 2 retries after failures of the application are used up"
    )


def test_a_long_run_starts_the_counts_anew():
    world = running(restartPolicy={**RETRIES, "onFailureRetries": 1, "retryResetSeconds": 600})
    for _ in range(4):
        world.now += 601
        world.driver_is(failed(1))
        world.settle()
        world.now += 10
        world.settle()
        world.driver_is(RUNNING)
        world.settle()
    assert (world.state(), world.status.attempt) == (State.RUNNING, 5)


def test_each_cause_has_a_budget_of_its_own():
    world = running(restartPolicy={**RETRIES, "onFailureRetries": 1, "onInfrastructureFailureRetries": 1})
    for status in (failed(1), failed(137)):
        world.driver_is(status)
        world.settle()
        world.now += 60
        world.settle()
        world.driver_is(RUNNING)
        world.settle()
    assert (world.state(), world.status.attempt) == (State.RUNNING, 3)
    assert (world.status.restarts.application, world.status.restarts.infrastructure) == (1, 1)


def test_a_killed_driver_is_followed_by_another_without_any_policy():
    world = running()
    world.driver_is(failed(137))
    world.settle()
    assert world.state() is State.PENDING_RERUN
    world.now += 5
    world.settle()
    assert world.status.attempt == 2
    assert len(world.pods) == 2  # the first one's object stays for its log


def test_a_driver_whose_pod_was_deleted_is_not_made_again_under_its_name():
    world = running()
    first = world.names.driver_pod
    del world.pods[first]
    world.settle()
    assert world.status.transitions[-1].reason == "DriverPodGone"
    world.now += 5
    world.settle()
    assert list(world.pods) == [world.names.driver_pod] != [first]


def test_no_second_driver_while_the_first_is_not_proven_gone():
    world = running()
    world.node_is(node(ready="Unknown"))
    world.settle()
    assert world.state() is State.RUNNING
    assert condition(world, "DriverRunning").status == "Unknown"
    assert world.status.application_state.error_message == "the driver's node n1 does not answer"
    world.now += 10_000
    world.settle()
    assert (world.state(), world.status.attempt) == (State.RUNNING, 1)
    world.node_is(None)
    world.settle()
    world.now += 5
    world.settle()
    assert world.status.attempt == 2
    assert [t.reason for t in world.status.transitions][-2:] == ["NodeLost", "RerunStarted"]


def test_a_node_that_comes_back_finds_its_driver_as_it_was():
    world = running()
    world.node_is(node(ready="Unknown"))
    world.settle()
    world.node_is(node())
    world.settle()
    assert (world.state(), world.status.attempt) == (State.RUNNING, 1)
    assert world.status.application_state.error_message == ""
    assert condition(world, "DriverRunning").status == "True"


def test_who_assumes_a_silent_driver_dead_gets_another_after_the_time_he_chose():
    world = running(recovery={"fencing": "Assume", "fencingTimeoutSeconds": 90})
    world.node_is(node(ready="Unknown"))
    assert world.settle().delay == 90
    world.now += 90
    world.settle()
    world.now += 5
    world.settle()
    assert world.status.attempt == 2
    assert "taken for dead after 90 s (recovery.fencing: Assume)" in world.status.transitions[-2].message


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"containerStatuses": container(waiting={"reason": "ImagePullBackOff"})}, "ImagePullBackOff"),
        ({"phase": "Pending"}, "DriverPending"),
    ],
)
def test_a_driver_that_does_not_start_in_time_is_given_up(status, reason):
    world = World(body=manifest(timeouts={"driverStart": 60}, restartPolicy={"type": "Never"}))
    world.settle()
    world.driver_is(status)
    world.settle()
    assert condition(world, "DriverRunning").reason == reason
    world.now += 60
    world.settle()
    assert world.state() is State.FAILED
    assert world.status.transitions[-1].reason == "DriverStartTimedOut"
    assert not world.pods


def test_what_a_driver_waits_for_is_said_once():
    world = World()
    world.settle()
    world.driver_is({"containerStatuses": container(waiting={"reason": "ErrImagePull", "message": "not found"})})
    world.settle()
    world.now += 1
    world.settle()
    said = [one for one in world.said if one[1] == "ErrImagePull"]
    assert said == [("Warning", "ErrImagePull", "the driver's image cannot be pulled: not found")]


def test_executors_that_never_start_end_the_attempt():
    world = running(timeouts={"executorStart": 120}, restartPolicy={"type": "Never"})
    pending = driver("pi-exec-1")
    world.executors = [pending]
    assert world.settle().delay == 120
    world.now += 120
    world.settle()
    assert world.status.transitions[-1].message == (
        "no executor started within 120 s (spec.timeouts.executorStart): pi-exec-1: starting; restartPolicy is Never"
    )


def test_executors_that_ran_once_may_be_replaced_slowly():
    world = running(timeouts={"executorStart": 120})
    world.executors = [{**driver("pi-exec-1"), "status": {"phase": "Running"}}]
    world.settle()
    world.executors = [driver("pi-exec-2")]
    world.now += 1000
    world.settle()
    assert world.state() is State.RUNNING


def test_suspending_stops_the_driver_and_resuming_starts_another():
    world = running()
    world.edit(suspend=True)
    world.settle()
    assert (world.state(), world.pods) == (State.SUSPENDED, {})
    world.edit(suspend=False)
    world.settle()
    assert (world.state(), world.status.attempt) == (State.SUBMITTED, 2)


def test_an_application_made_suspended_is_not_submitted():
    world = World(body=manifest(suspend=True))
    world.settle()
    assert (world.state(), world.status.attempt) == (State.SUSPENDED, 0)


def test_an_edit_stops_the_attempt_and_runs_the_new_spec():
    world = running()
    world.edit(arguments=["2"])
    world.settle()
    assert (world.state(), world.status.attempt) == (State.SUBMITTED, 2)
    assert world.status.submitted_generation == 2
    assert "SpecEdited" in [one.reason for one in world.status.transitions]


@pytest.mark.parametrize(
    "edit", [{"timeToLiveSeconds": 5}, {"restartPolicy": RETRIES}, {"timeouts": {"driverStart": 9}}]
)
def test_some_edits_leave_a_running_attempt_alone(edit):
    world = running()
    world.edit(**edit)
    world.settle()
    assert (world.state(), world.status.attempt) == (State.RUNNING, 1)
    assert world.status.observed_generation == 2


def test_an_edit_of_an_ended_application_runs_it_again():
    world = running()
    world.driver_is(failed(1))
    world.settle()
    world.edit(arguments=["2"])
    world.settle()
    assert (world.state(), world.status.attempt) == (State.SUBMITTED, 2)


def test_a_spec_that_cannot_be_used_says_which_field():
    world = World(body=manifest(image=None, proxyUser="root", sparkConf={"spark.master": "local[2]"}))
    world.settle()
    assert world.state() is State.FAILED
    accepted = condition(world, "Accepted")
    assert (accepted.status, accepted.reason) == ("False", "SpecInvalid")
    for path in ("spec.proxyUser:", "spec.sparkConf.spark.master:", "spec.image:"):
        assert path in accepted.message
    assert not world.pods
    assert len([one for one in world.said if one[1] == "SparkApplicationInvalid"]) == 1


def test_a_spec_that_is_mended_is_submitted():
    world = World(body=manifest(image=None))
    world.settle()
    world.edit(image="spark:4.1.1")
    world.settle()
    assert (world.state(), world.status.attempt) == (State.SUBMITTED, 1)
    assert condition(world, "Accepted").status == "True"


def test_an_unusable_edit_leaves_what_runs_alone():
    world = running()
    world.edit(proxyUser="root")
    world.settle()
    assert (world.state(), len(world.pods)) == (State.RUNNING, 1)
    assert condition(world, "Accepted").status == "False"


def test_a_refused_submission_is_tried_again_and_then_given_up():
    world = World(body=manifest(restartPolicy={"type": "OnFailure", "onSubmissionFailureRetries": 1}))
    world.refusal = "Pod x was refused: exceeded quota"
    world.settle()
    assert (world.state(), world.status.attempt) == (State.PENDING_RERUN, 1)
    world.now += 5
    world.settle()
    assert world.state() is State.FAILED
    assert world.status.application_state.error_message == (
        "Pod x was refused: exceeded quota; all 1 retries after failed submissions are used up"
    )


def test_the_time_to_live_begins_with_the_end():
    world = running(timeToLiveSeconds=30)
    world.now += 100
    world.driver_is(SUCCEEDED)
    assert world.settle().delay == 30
    assert not world.is_expired
    world.now += 30
    world.look()
    assert world.is_expired


def test_a_deleted_application_waits_for_its_driver():
    world = running()
    world.deleted_at = world.now
    world.look()
    world.look()
    assert (world.pods, world.is_released) == ({}, True)


def test_a_deleted_application_does_not_wait_for_a_dead_node_for_ever():
    world = running()
    world.node_is(node(ready="Unknown"))
    world.deleted_at = world.now
    world.look()
    world.now += 59
    world.look()
    assert world.is_released is False
    world.now += 1
    world.look()
    assert bool(world.is_released)
    assert world.said[-1][1] == "DriverNotProvenGone"


def test_a_status_that_was_lost_does_not_make_a_second_driver():
    world = running()
    first = world.names.driver_pod
    world.status = type(world.status)(attempt=7)
    world.node_is(node(ready="Unknown"))
    world.settle()
    assert list(world.pods) == [first]
    world.node_is(node())
    world.settle()
    world.settle()
    assert list(world.pods) == [world.names.driver_pod] != [first]


def test_history_and_messages_are_bounded():
    world = running(restartPolicy={"type": "Always", "onFailureRetryInterval": 1})
    for _ in range(40):
        world.driver_is(SUCCEEDED)
        world.settle()
        world.now += 1
        world.settle()
        world.driver_is(RUNNING)
        world.settle()
    assert len(world.status.transitions) == 32
    world.driver_is({"phase": "Failed", "reason": "Evicted", "message": "x" * 100_000})
    world.settle()
    assert len(world.status.application_state.error_message) <= 2000


@pytest.mark.parametrize("running_first", [True, False])
def test_who_assumes_death_never_waits_for_ever(running_first):
    """Also where the driver had not started, or was told to end before its node fell silent."""
    spec = {"recovery": {"fencing": "Assume", "fencingTimeoutSeconds": 60}, "timeouts": {"driverStart": 30}}
    world = running(**spec) if running_first else World(body=manifest(**spec))
    world.settle()
    world.node_is(node(ready="Unknown"))
    world.edit(arguments=["2"])
    for _ in range(20):
        world.look()
        world.now += 10
    assert world.status.attempt >= 2
    assert "DriverAssumedDead" in [reason for _, reason, _ in world.said]


def test_nothing_runs_in_the_status_of_what_is_over():
    world = running()
    world.executors = [{**driver("pi-exec-1"), "status": {"phase": "Running"}}]
    world.settle()
    assert world.status.executors.running == 1
    world.driver_is(SUCCEEDED)
    world.settle()
    assert (world.status.executors.running, world.status.executor_state) == (0, {})


def test_what_succeeded_before_it_was_suspended_has_succeeded():
    world = running()
    world.edit(suspend=True)
    world.driver_is(SUCCEEDED)
    world.settle()
    assert world.state() is State.COMPLETED


@pytest.mark.parametrize(("status", "state"), [(SUCCEEDED, State.COMPLETED), (failed(3), State.FAILED)])
def test_an_unusable_edit_does_not_hide_how_a_driver_ended(status, state):
    world = running()
    world.edit(proxyUser="root")
    world.driver_is(status)
    world.settle()
    assert world.state() is state
    world.settle()
    assert world.state() is state
    if state is State.FAILED:
        assert "the driver ended with exit code 3" in world.status.application_state.error_message


@pytest.mark.parametrize(
    "spec",
    [
        {"sparkConf": {"spark.driver.memory": "abc"}},
        {"sparkConf": {"spark.driver.memoryOverheadFactor": "x"}},
        {"driver": {"template": {"spec": {"containers": ["x"]}}}},
        {"driver": {"template": {"spec": {"containers": [{"name": "a", "env": 5}]}}}},
        {"executor": {"template": {"metadata": 5}}},
        {"sparkConf": {"spark.ui.port": "4050"}},
        {"sparkConf": {"spark.kubernetes.driverEnv.A": "1"}},
    ],
)
def test_what_no_schema_checks_is_refused_and_never_raises(spec):
    world = World(body=manifest(**spec))
    world.settle()
    assert (world.state(), world.pods) == (State.FAILED, {})
    assert condition(world, "Accepted").message.startswith("spec")


def test_waits_are_bounded_however_often_it_failed():
    policy = RestartPolicy(type="OnFailure", on_failure_retries=100_000)
    following = after_failure(policy, FailureCause.APPLICATION, RestartCounts(application=5000), 1.0)
    assert isinstance(following, Again)
    assert following.delay == policy.max_retry_interval


def test_a_sidecar_does_not_keep_the_pod_of_a_driver_that_has_ended():
    world = running()
    world.driver_is(beside_a_sidecar(terminated={"exitCode": 0}))
    world.settle()
    assert world.state() is State.COMPLETED
    assert not world.pods


def test_that_no_executor_was_made_is_said_once_and_ends_nothing():
    world = running(timeouts={"executorStart": 60})
    assert world.settle().delay == 60
    world.now += 60
    world.settle()
    world.now += 60
    world.settle()
    assert world.state() is State.RUNNING
    assert condition(world, "DriverRunning").reason == "NoExecutors"
    assert [reason for _, reason, _ in world.said].count("NoExecutors") == 1


@pytest.mark.parametrize(
    "spec", [{"dynamicAllocation": {"enabled": True}}, {"sparkConf": {"spark.dynamicAllocation.enabled": "true"}}]
)
def test_an_application_that_allocates_dynamically_may_have_no_executors(spec):
    world = running(timeouts={"executorStart": 60}, **spec)
    world.now += 1000
    world.settle()
    assert condition(world, "DriverRunning").reason == "DriverRunning"


def test_a_driver_of_another_attempt_is_deleted():
    """An operator that has lost the Lease may have asked for it long ago, and the API server answers late."""
    world = running()
    present = world.names.driver_pod
    world.pods["pi-late-driver"] = driver("pi-late-driver", **RUNNING)
    world.settle()
    assert list(world.pods) == [present]
    assert [one for one in world.said if one[1] == "StrayDriver"] == [
        ("Warning", "StrayDriver", "driver pod pi-late-driver is not of attempt 1: it is deleted")
    ]


@pytest.mark.parametrize("suspended", [False, True])
def test_a_driver_of_another_attempt_is_deleted_also_where_nothing_is_to_run(suspended):
    world = running()
    if suspended:
        world.edit(suspend=True)
    else:
        world.driver_is(SUCCEEDED)
    world.settle()
    for name in ("pi-late-driver", "pi-later-driver"):
        world.pods[name] = driver(name, **RUNNING)
    world.settle()
    assert not [name for name in world.pods if name.startswith("pi-late")]
    assert world.state() is (State.SUSPENDED if suspended else State.COMPLETED)


def test_an_application_that_is_suspended_when_its_status_is_lost_has_no_driver_left():
    world = running()
    world.status = type(world.status)()
    world.edit(suspend=True)
    world.settle()
    assert (world.state(), world.pods) == (State.SUSPENDED, {})


def test_all_drivers_of_other_attempts_are_told_to_end_at_once():
    """One after the other each would have its time to end."""
    world = running()
    world.status = type(world.status)()
    for number in range(5):
        world.pods[f"pi-late-{number}"] = driver(f"pi-late-{number}", **RUNNING)
    world.look()
    assert not world.pods


def test_a_driver_that_was_deleted_before_it_had_a_node_is_gone_also_where_a_finalizer_keeps_its_pod():
    world = World()
    world.settle()
    first = world.names.driver_pod
    world.pods[first]["spec"] = {}
    world.settle()
    world.pods[first]["metadata"]["deletionTimestamp"] = format_time(world.now)
    world.settle()
    assert world.status.transitions[-1].reason == "DriverPodGone"
    world.now += 5
    world.settle()
    assert sorted(world.pods) == sorted([first, world.names.driver_pod])
    assert world.status.attempt == 2


def test_a_deleted_driver_that_is_said_to_run_is_not_gone_though_no_node_is_named():
    world = running()
    world.pods[world.names.driver_pod]["spec"] = {}
    world.pods[world.names.driver_pod]["metadata"]["deletionTimestamp"] = format_time(world.now)
    world.settle()
    assert world.state() is State.RUNNING


def test_a_spec_that_reads_differently_without_an_edit_restarts_nothing():
    """As after an upgrade of the CRD that gives a field a default."""
    world = running()
    world.body["spec"]["imagePullPolicy"] = "IfNotPresent"
    world.settle()
    assert world.state() is State.RUNNING
    world.driver_is(SUCCEEDED)
    world.settle()
    world.body["spec"]["imagePullPolicy"] = "Always"
    world.settle()
    assert world.state() is State.COMPLETED


def test_an_edit_that_restarts_nothing_does_not_count_later():
    world = running()
    world.edit(timeToLiveSeconds=500)
    world.settle()
    world.body["spec"]["imagePullPolicy"] = "Always"
    world.settle()
    assert world.state() is State.RUNNING


def test_a_status_that_was_lost_does_not_bring_an_attempt_back():
    world = running()
    world.driver_is(failed(1))
    world.settle()
    world.status = ApplicationStatus()
    world.settle()
    assert (world.state(), world.status.attempt) == (State.SUBMITTED, 2)


def test_a_status_that_cannot_be_read_is_told():
    world = World()
    decision = decide(replace(world.view(), status_problem="status.attempt: expected a whole number, got 'x'"))
    assert decision.events[-1].reason == "StatusUnreadable"
    assert "expected a whole number" in decision.events[-1].message


def test_the_pods_of_the_last_three_ended_drivers_are_kept():
    world = running(restartPolicy={**RETRIES, "type": "Always"})
    for _ in range(6):
        world.driver_is(SUCCEEDED)
        world.settle()
        world.now += 60
        world.settle()
        world.driver_is(RUNNING)
        world.settle()
    assert world.status.attempt == 7
    assert sorted(attempt_of(pod) for pod in world.pods.values()) == [4, 5, 6, 7]


def test_an_edit_does_not_wait_for_the_rerun_of_the_old_spec():
    world = running(restartPolicy=RETRIES)
    world.driver_is(failed(1))
    world.settle()
    assert world.state() is State.PENDING_RERUN
    world.edit(arguments=["2"])
    world.settle()
    assert (world.state(), world.status.attempt) == (State.SUBMITTED, 2)
    assert world.status.restarts == RestartCounts()


def test_a_driver_that_vanished_from_a_silent_node_is_waited_for_unless_somebody_assumes():
    for recovery, begun in (({}, False), ({"fencing": "Assume", "fencingTimeoutSeconds": 90}, True)):
        world = running(recovery=recovery)
        del world.pods[world.names.driver_pod]
        gone = vanished(world.names.driver_pod, "u", node(ready="Unknown", since=world.now))
        world.status = decide(replace(world.view(), driver=gone)).status
        assert world.state() is State.PENDING_RERUN
        world.now += 100
        decision = decide(replace(world.view(), driver=gone))
        assert (Submit() in decision.steps) is begun
        assert not any(isinstance(step, DeleteDriver) for step in decision.steps)


def test_a_driver_that_cannot_be_made_is_not_tried_for_ever():
    world = World(body=manifest(timeouts={"driverStart": 60}, restartPolicy={"type": "Never"}))
    world.status = world.look().status
    world.pods.clear()
    world.now += 59
    assert decide(world.view()).steps == (Submit(),)
    world.now += 1
    decision = decide(world.view())
    assert decision.status.application_state.state is State.FAILED
    assert decision.status.transitions[-1].reason == "SubmissionTimedOut"


def test_a_deleted_driver_has_the_time_to_end_that_it_was_given():
    world = running()
    world.deleted_at = world.now
    driver = world.view().driver
    assert driver is not None
    told = replace(driver, is_terminating=True, grace=600.0)
    assert [decide(replace(world.view(), driver=told, now=world.now + later)).steps != () for later in (61, 661)] == [
        False,
        True,
    ]


def test_a_spec_that_cannot_be_used_can_still_be_suspended():
    world = running()
    world.edit(suspend=True, image=None)
    decision = decide(replace(world.view(), suspend=True))
    assert decision.status.application_state.state is State.SUSPENDING
    assert any(isinstance(step, DeleteDriver) for step in decision.steps)


def test_a_driver_that_fails_under_a_spec_that_cannot_be_used_is_cleaned_up_after():
    world = running()
    world.edit(image=None)
    world.driver_is(failed(1))
    decision = decide(replace(world.view(), log_tail="the last words"))
    assert decision.status.application_state.state is State.FAILED
    assert decision.status.driver_info.log_tail == "the last words"
    assert decision.steps == (CleanUp(1),)


def test_an_edit_of_what_has_failed_waits_for_its_driver_and_says_so():
    world = running(timeouts={"executorStart": 60}, restartPolicy={"type": "Never"})
    world.status = world.status.model_copy(
        update={"application_state": world.status.application_state.model_copy(update={"state": State.FAILED})}
    )
    world.node_is(node(ready="Unknown"))
    world.edit(arguments=["2"])
    world.settle()
    assert world.status.attempt == 1
    assert condition(world, "DriverRunning").reason == "WaitingForDriverToEnd"


def test_an_executor_that_a_kubelet_refused_has_not_run():
    pod = driver("exec-1", phase="Failed", reason="OutOfcpu")
    assert not executor_facts([pod], ran_before=False).counts.ever_started
    died = driver("exec-1", **failed(137))
    assert executor_facts([died], ran_before=False).counts.ever_started


@pytest.mark.parametrize("text", ["x" * 3000, "\x1b[31mred"])
def test_what_is_stored_differently_is_said_once_too(text):
    world = World()
    world.settle()
    world.driver_is({"containerStatuses": container(waiting={"reason": "ErrImagePull", "message": text})})
    for _ in range(3):
        world.settle()
    world.edit(proxyUser="root", sparkConf={f"spark.kubernetes.driver.label.{n}{'x' * 100}": "" for n in range(30)})
    for _ in range(3):
        world.settle()
    said = [reason for _, reason, _ in world.said]
    assert (said.count("ErrImagePull"), said.count("SparkApplicationInvalid")) == (1, 1)


def test_whatever_a_kubelet_says_the_status_is_small_enough_to_be_stored():
    world = running(restartPolicy={"type": "Always", "onFailureRetryInterval": 1})
    for _ in range(40):
        world.driver_is({"phase": "Failed", "reason": "\x01<" * 50_000, "message": "\x01<" * 50_000})
        world.settle()
        world.now += 600
        world.edit(arguments=[str(world.now)])
        world.settle()
    assert len(world.status.model_dump_json(by_alias=True)) < 500_000
