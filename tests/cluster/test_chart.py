"""The chart on a real cluster: what it refuses, a second operator that waits, an upgrade under an application."""

import json

import pytest

from tests.cluster import deployment, operators
from tests.cluster.api import evict, get, there, until
from tests.cluster.deployment import CHART, JOBS, NAMESPACE, RELEASE, SELECTOR
from tests.kind.go import module_file
from tests.kind.kubectl import kubectl
from tests.kind.processes import Failed
from tests.kind.versions import PROMETHEUS_OPERATOR

pytestmark = pytest.mark.timeout(600)


def holder() -> str:
    lease = json.loads(kubectl("get", "lease", RELEASE, "-n", NAMESPACE, "-o", "json"))
    return str(lease["spec"].get("holderIdentity") or "").partition("_")[0]


def names() -> list[str]:
    return [operators.name_of(pod) for pod in operators.pods()]


def test_the_chart_is_well_formed_and_refuses_values_it_does_not_know(installed):
    deployment.helm("lint", str(CHART))
    with pytest.raises(Failed, match=r"additional properties 'namespace' not allowed|namespace is not allowed"):
        deployment.helm("template", "x", str(CHART), "--set", "namespace=team")
    with pytest.raises(Failed, match="logFormat"):
        deployment.helm("template", "x", str(CHART), "--set", "logFormat=xml")


@pytest.fixture
def prometheus_kinds():
    """ServiceMonitor as the Prometheus operator defines it."""
    module, folder = "github.com/prometheus-operator/prometheus-operator", "example/prometheus-operator-crd"
    text = module_file(module, PROMETHEUS_OPERATOR, f"{folder}/monitoring.coreos.com_servicemonitors.yaml")
    kubectl("create", "-f", "-", text=text)
    kubectl("wait", "crd/servicemonitors.monitoring.coreos.com", "--for=condition=Established", "--timeout=30s")
    yield
    kubectl("delete", "crd", "servicemonitors.monitoring.coreos.com")


def test_every_optional_part_is_installed_and_removed_again(installed, prometheus_kinds):
    parts = {"poddisruptionbudget": "podDisruptionBudget", "networkpolicy": "networkPolicy"}
    parts["servicemonitor"] = "serviceMonitor"
    deployment.install(installed, *(f"{value}.enabled=true" for value in parts.values()))
    try:
        found = {kind: there(kind, RELEASE, NAMESPACE) for kind in parts}
        pod = operators.pods()[0]
        service = there("service", f"{RELEASE}-metrics", NAMESPACE)
        budget, policy = found["poddisruptionbudget"]["spec"], found["networkpolicy"]["spec"]
        for selector in (budget["selector"]["matchLabels"], policy["podSelector"]["matchLabels"]):
            assert selector.items() <= pod["metadata"]["labels"].items()
        monitor = found["servicemonitor"]["spec"]
        assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert monitor["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]
    finally:
        deployment.install(installed)
    assert not any(get(kind, RELEASE, NAMESPACE) for kind in parts)


def test_of_two_operators_the_budget_lets_one_be_evicted_at_a_time(installed):
    deployment.install(installed, "replicas=2", "podDisruptionBudget.enabled=true")
    try:
        until("a budget", lambda: there("pdb", RELEASE, NAMESPACE)["status"].get("disruptionsAllowed") == 1, 60)
        first, second = names()
        evict(there("pod", first, NAMESPACE))
        with pytest.raises(Failed, match="disruption budget"):
            evict(there("pod", second, NAMESPACE))
        until("two operators", lambda: there("pdb", RELEASE, NAMESPACE)["status"].get("disruptionsAllowed") == 1, 90)
    finally:
        deployment.install(installed)


def test_confined_to_a_namespace_it_runs_what_is_there(installed, application, claim_template):
    """With Roles only, and without Node objects: a driver's node is judged by its pod then. A pipeline is asked all the
    same what there is of it."""
    deployment.install(installed, f"namespaces={{{JOBS}}}", "watchNodes=false")
    try:
        assert get("clusterrole", RELEASE, NAMESPACE) is None
        stored = {"storage": {"claimTemplate": claim_template}}
        app = application("confined", "chain.py", "2", "8", "/tmp/out", recovery=stored).apply()
        app.wait_until("its stages are told", lambda status: (status.get("recovery") or {}).get("stages"), 180)
        app.wait_for("COMPLETED", "FAILED", seconds=120)
        assert app.state == "COMPLETED", app.tell()
    finally:
        deployment.install(installed)


def test_metrics_and_probes_are_served(installed):
    [pod] = until("one operator", lambda: len(names()) == 1 and names(), 60)
    proxy = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}:8080/proxy"
    assert kubectl("get", "--raw", f"{proxy}/healthz") == "ok\n"
    until("readiness", lambda: kubectl("get", "--raw", f"{proxy}/readyz") == "ok\n", 30)
    until("the Lease", lambda: "rekindle_leader 1.0" in kubectl("get", "--raw", f"{proxy}/metrics"), 60)


def test_uninstalled_upgraded_or_taken_over_it_leaves_what_runs_and_goes_on(installed, application):
    """Uninstalled with the kinds left, installed again, upgraded to two, of which one waits and takes over."""
    app = application("uninstalled", "pi.py", "1000", "600", "1").apply()  # it does not end by itself
    app.wait_for_executor()
    driver = app.driver()["metadata"]["uid"]
    deployment.uninstall()
    try:
        kinds = "deployments,services,serviceaccounts,roles,rolebindings,configmaps,secrets"
        left = kubectl("get", kinds, "-A", "-l", f"{SELECTOR},app.kubernetes.io/managed-by=Helm", "-o", "name")
        assert left == ""
        assert kubectl("get", "clusterroles,clusterrolebindings", "-l", SELECTOR, "-o", "name") == ""
        deployment.install(installed)
        deployment.install(installed, "replicas=2")
        until("two operators", lambda: len(names()) == 2 and holder() in names(), 90)
        first = holder()
        operators.kill(first)
        until("another holds the Lease", lambda: holder() not in ("", first), 60)
        assert [pod["metadata"]["uid"] for pod in app.drivers()] == [driver]
        app.edit(suspend=True)
        app.wait_for("SUSPENDED")
    finally:
        deployment.install(installed)


def test_server_side_apply_twice_changes_nothing(application):
    app = application("twice", "pi.py", suspend=True)
    command = ("apply", "--server-side", "--field-manager=gitops", "-f", "-")
    kubectl(*command, text=json.dumps(app.manifest))
    app.wait_for("SUSPENDED", seconds=60)
    before = app.body["metadata"]
    kubectl(*command, text=json.dumps(app.manifest))
    after = app.body["metadata"]
    assert (before["generation"], before["resourceVersion"]) == (after["generation"], after["resourceVersion"])
