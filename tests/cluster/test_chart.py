"""The chart on a real cluster: what it refuses, a second operator that waits, an upgrade under an application."""

import json

import pytest

from tests.cluster import deployment
from tests.cluster.api import until
from tests.cluster.deployment import CHART, NAMESPACE, RELEASE
from tests.kind.kubectl import kubectl
from tests.kind.processes import Failed

pytestmark = pytest.mark.timeout(600)


def holder() -> str:
    lease = json.loads(kubectl("get", "lease", RELEASE, "-n", NAMESPACE, "-o", "json"))
    return str(lease["spec"].get("holderIdentity") or "")


def operators() -> list[str]:
    selector = f"app.kubernetes.io/instance={RELEASE}"
    listed = kubectl("get", "pods", "-n", NAMESPACE, "-l", selector, "-o", "json")
    return sorted(
        pod["metadata"]["name"] for pod in json.loads(listed)["items"] if "deletionTimestamp" not in pod["metadata"]
    )


def test_the_chart_is_well_formed_and_refuses_values_it_does_not_know(installed):
    deployment.helm("lint", str(CHART))
    with pytest.raises(Failed, match=r"additional properties 'namespace' not allowed|namespace is not allowed"):
        deployment.helm("template", "x", str(CHART), "--set", "namespace=team")
    with pytest.raises(Failed, match="logFormat"):
        deployment.helm("template", "x", str(CHART), "--set", "logFormat=xml")


def test_every_optional_part_is_taken_by_the_api_server(installed):
    enabled = ["podDisruptionBudget.enabled=true", "networkPolicy.enabled=true", "namespaces={jobs}"]
    arguments = [part for value in enabled for part in ("--set", value)]
    render = ("template", "tried", str(CHART), "--namespace", NAMESPACE, "--kube-version", "1.36")
    text = deployment.helm(*render, *arguments)
    kubectl("apply", "--dry-run=server", "-f", "-", text=text)
    again = deployment.helm(*render, "--set", "serviceMonitor.enabled=true")  # its kind is not in this cluster
    assert "kind: ServiceMonitor" in again


def test_of_two_operators_one_waits_and_takes_over_and_an_upgrade_stops_nothing(installed, application):
    app = application("upgraded", "pi.py", "1000", "4", "8").apply()
    app.wait_until("an executor runs", lambda status: status.get("executors", {}).get("running"), 180)
    driver = app.driver()["metadata"]["uid"]
    deployment.install(installed, "replicas=2")
    try:
        until("two operators", lambda: len(operators()) == 2 and holder() in operators(), 90)
        first = holder()
        kubectl("delete", "pod", first, "-n", NAMESPACE, "--grace-period=0", "--force", "--wait=false")
        until("another holds the Lease", lambda: holder() not in ("", first), 60)
        app.wait_for("COMPLETED", "FAILED", seconds=180)
        assert app.state == "COMPLETED", app.tell()
        assert [pod["metadata"]["uid"] for pod in app.drivers()] == [driver]
    finally:
        deployment.install(installed, "replicas=1")


def test_server_side_apply_twice_changes_nothing(application):
    app = application("twice", "pi.py", suspend=True)
    command = ("apply", "--server-side", "--field-manager=gitops", "-f", "-")
    kubectl(*command, text=json.dumps(app.manifest))
    app.wait_for("SUSPENDED", seconds=60)
    before = app.body["metadata"]
    kubectl(*command, text=json.dumps(app.manifest))
    after = app.body["metadata"]
    assert (before["generation"], before["resourceVersion"]) == (after["generation"], after["resourceVersion"])
