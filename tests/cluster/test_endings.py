"""How Kubernetes itself ends pods: memory, disk, evictions; and what the application says of it, word by word."""

import pytest

from tests.cluster.api import evict
from tests.cluster.marks import beside

pytestmark = [pytest.mark.timeout(600), beside]

ONCE = {"restartPolicy": {"type": "Never"}}


def test_a_driver_that_uses_more_memory_than_its_limit_is_called_so(application):
    app = application("driver-memory", "eat.py", "memory", **ONCE).apply()
    app.wait_for("FAILED", seconds=180)
    assert app.reasons[-1] == "OOMKilled"
    assert app.status["applicationState"]["errorMessage"].startswith(
        "the driver used more memory than its limit (OOMKilled)"
    )


def test_a_task_that_uses_more_memory_than_its_executor_has_is_killed_and_fails_the_job(application):
    app = application("executor-memory", "eat.py", "executor", sparkConf={"spark.task.maxFailures": "1"}, **ONCE)
    app.apply()
    app.wait_for("FAILED", seconds=180)
    assert app.status["driverInfo"]["exitCode"] == 1
    assert "Python worker exited unexpectedly (crashed)" in app.log()


def test_an_evicted_driver_is_started_again(application):
    app = application("driver-evicted", "pi.py", "1000", "3", "6").apply()
    app.wait_for_executor()
    evict(app.driver())
    app.wait_until("the second attempt", lambda status: status.get("attempt") == 2, 90)
    entered = next(one for one in app.status["transitions"] if one["state"] == "PENDING_RERUN")
    assert entered["reason"] == "EvictionByEvictionAPI"
    assert entered["message"].startswith("the driver was disrupted: EvictionByEvictionAPI: ")
    app.wait_for("RUNNING")


def test_a_driver_whose_disk_is_full_is_evicted_by_its_kubelet(application):
    small = {"name": "small", "emptyDir": {"sizeLimit": "1Mi"}}
    mount = {"volumeMounts": [{"name": "small", "mountPath": "/small"}]}
    app = application("driver-disk", "eat.py", "disk", volumes=[small], driver=mount, **ONCE).apply()
    app.wait_for("FAILED", seconds=180)
    assert app.reasons[-1] == "Evicted"
    assert app.status["applicationState"]["errorMessage"].startswith(
        'the driver\'s pod failed: Evicted: Usage of EmptyDir volume "small" exceeds the limit "1Mi"'
    )
