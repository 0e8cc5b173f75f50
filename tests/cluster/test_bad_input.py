"""What people get wrong, on the real API server: refused there, or told in the status, and mended by an edit."""

import json

import pytest

from tests.cluster.api import apply, until
from tests.cluster.deployment import JOBS
from tests.cluster.marks import beside
from tests.kind.kubectl import kubectl
from tests.kind.processes import Failed

pytestmark = [pytest.mark.timeout(600), beside]

ONCE = {"restartPolicy": {"type": "Never"}}


@pytest.fixture
def account_without_rights():
    name = "powerless"
    apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": JOBS}})
    yield name
    kubectl("delete", "serviceaccount", name, "-n", JOBS)


def test_a_driver_whose_account_has_no_rights_says_so(application, account_without_rights):
    app = application("no-rights", "pi.py", driver={"serviceAccount": account_without_rights}, **ONCE).apply()
    app.wait_for("FAILED", seconds=120)
    assert app.status["applicationState"]["errorMessage"].startswith("the driver ended with exit code 1")
    told = app.log()
    assert f"system:serviceaccount:{JOBS}:{account_without_rights}" in told
    assert "forbidden" in told


def test_a_main_file_that_is_not_there_is_told(application):
    app = application("no-file", "none.py", **ONCE).apply()
    app.wait_for("FAILED", seconds=120)
    assert app.status["applicationState"]["errorMessage"].startswith("the driver ended with exit code 2")
    assert "/app/none.py" in app.status["driverInfo"]["logTail"]


def test_a_name_that_is_too_long_is_refused(application):
    longer = application("n" * 64, "pi.py", "10")
    with pytest.raises(Failed, match=r"metadata\.name.*63"):
        kubectl("create", "-f", "-", text=json.dumps(longer.manifest))


@pytest.mark.parametrize(
    ("name", "spec", "words"),
    [
        (
            "owned-key",
            {"sparkConf": {"spark.kubernetes.namespace": "elsewhere"}},
            "spec.sparkConf.spark.kubernetes.namespace: the operator sets this for every driver it makes; remove it",
        ),
        (
            "typed-key",
            {"sparkConf": {"spark.kubernetes.driver.label.team": "a"}},
            "spec.sparkConf.spark.kubernetes.driver.label.team: the operator writes the driver's pod, "
            "not spark-submit; write spec.driver.labels",
        ),
        ("no-image", {"image": None}, "spec.image: required, unless spec.driver.image is set"),
        (
            "no-pod",
            {"driver": {"template": {"spec": {"containers": "none"}}}},
            "spec: no pods can be made of it",
        ),
        (
            "no-measure",
            {"sparkConf": {"spark.driver.memoryOverheadFactor": "inf"}},
            "spec: no pods can be made of it: cannot convert float infinity to integer",
        ),
        (
            "no-number",
            {"sparkConf": {"spark.rekindle.recovery.max-attempts": "many"}},
            "spec.sparkConf: spark.rekindle.recovery.max-attempts",
        ),
    ],
)
def test_a_spec_that_cannot_be_used_is_told_and_an_edit_mends_it(application, name, spec, words):
    """Nothing runs of it."""
    app = application(f"unusable-{name}", "pi.py", **spec)
    right = application(app.name, "pi.py", suspend=True)
    app.apply()
    app.wait_for("FAILED", seconds=30)
    condition = app.condition("Accepted")
    assert (condition["status"], condition["reason"]) == ("False", "SpecInvalid")
    assert words in condition["message"]
    assert app.drivers() == []
    kubectl("replace", "-f", "-", text=json.dumps(right.manifest))
    until("the spec is accepted", lambda: app.condition("Accepted")["status"] == "True", 30, tell=app.tell)


def test_a_pod_field_that_kubernetes_does_not_know_is_told_by_its_name(application):
    app = application("unknown-field", "pi.py", driver={"affinity": {"nodeAfinity": {}}}, **ONCE).apply()
    app.wait_for("FAILED", seconds=30)
    assert 'unknown field "spec.affinity.nodeAfinity"' in app.status["applicationState"]["errorMessage"]
    assert app.reasons[-1] == "SubmissionRefused"
