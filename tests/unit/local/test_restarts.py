"""Which ends of a driver are followed by another driver."""

import pytest

from rekindle.api.restart_policy import RestartPolicy
from rekindle.local.restarts import Ended, Restart, decide


@pytest.mark.parametrize("code", [-9, 137, -15, 143, 3])
def test_without_a_policy_lost_infrastructure_is_survived_three_times(code):
    assert [type(decide(None, code, restarts)) for restarts in range(4)] == [Restart, Restart, Restart, Ended]
    last = decide(None, code, 3)
    assert isinstance(last, Ended)
    assert last.code == 3
    assert "all 3 restarts are used up" in last.reason


def test_without_a_policy_the_restart_is_at_once():
    assert decide(None, -9, 2) == Restart(0.0, "the driver was killed (SIGKILL)")


@pytest.mark.parametrize("policy", [None, RestartPolicy(type="OnFailure"), RestartPolicy(type="Always")])
def test_success_ends_the_run(policy):
    assert decide(policy, 0, 0) == Ended(0, "finished")


@pytest.mark.parametrize("policy", [None, RestartPolicy(type="OnFailure"), RestartPolicy(type="Always")])
@pytest.mark.parametrize("code", [2, 4])
def test_a_bad_pipeline_and_a_refused_store_are_never_tried_again(policy, code):
    assert decide(policy, code, 0) == Ended(code, f"the driver ended with exit code {code}")


@pytest.mark.parametrize("code", [1, 52, 134, -11])
def test_a_pipeline_that_failed_is_tried_again_with_always_only(code):
    for kind in ("OnFailure", "OnInfrastructureFailure"):
        ended = decide(RestartPolicy(type=kind), code, 0)
        assert isinstance(ended, Ended)
        assert ended.code == 1
    assert isinstance(decide(RestartPolicy(type="Always"), code, 0), Restart)


def test_never_is_never():
    ended = decide(RestartPolicy(type="Never"), -9, 0)
    assert isinstance(ended, Ended)
    assert (ended.code, ended.reason) == (3, "the driver was killed (SIGKILL)")


def test_a_policy_sets_number_and_growing_delay():
    policy = RestartPolicy(type="OnFailure", on_failure_retries=2, on_failure_retry_interval=7)
    assert decide(policy, 143, 0) == Restart(7.0, "the driver was killed (SIGTERM)")
    assert decide(policy, 143, 1) == Restart(14.0, "the driver was killed (SIGTERM)")
    assert isinstance(decide(policy, 143, 2), Ended)
