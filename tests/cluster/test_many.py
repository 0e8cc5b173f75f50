"""Hundreds of applications at once, while the operator is killed and uninstalled."""

import copy
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster import deployment
from tests.cluster.api import apply, items, until
from tests.cluster.deployment import JOBS, NAMESPACE, RELEASE
from tests.kind.kubectl import kubectl

pytestmark = pytest.mark.timeout(900)

HOW_MANY = 300
OURS = "tests.rekindle.dev/many"


def drivers() -> list[dict]:
    return items("pods", JOBS, f"{OURS},spark-role=driver")


def test_each_of_three_hundred_gets_one_driver_wherever_the_operator_is_killed(application, installed):
    """No driver is ever placed, so none costs a JVM; what kubelets say of them is written by hand."""
    first = application(
        "many", "pi.py", driver={"nodeSelector": {"there-is": "no-such-node"}, "labels": {OURS: "1"}}, executor={}
    ).manifest
    manifests = [copy.deepcopy(first) for _ in range(HOW_MANY)]
    for number, manifest in enumerate(manifests):
        manifest["metadata"] |= {"name": f"many-{number}", "labels": {OURS: "1"}}
    try:
        with ThreadPoolExecutor(1) as pool:
            applied = pool.submit(apply, *manifests)
            until("the first fifty drivers", lambda: len(drivers()) >= 50)
            selector = f"app.kubernetes.io/name={RELEASE}"
            kubectl("delete", "pods", "-n", NAMESPACE, "-l", selector, "--grace-period=0", "--force")
            until("a hundred drivers", lambda: len(drivers()) >= 100)
            deployment.uninstall()
            deployment.install(installed)
            applied.result()
        until("all drivers", lambda: len(drivers()) >= HOW_MANY, 240)
        pods = {"apiVersion": "v1", "kind": "List", "items": drivers()}
        ended = json.dumps({"status": {"phase": "Succeeded"}})
        kubectl(
            "patch", "-f", "-", "--subresource=status", "--type=merge", "-p", ended, text=json.dumps(pods), timeout=300
        )

        def states() -> Counter[str]:
            applications = items("sparkapplications", JOBS, OURS)
            return Counter(one.get("status", {}).get("applicationState", {}).get("state") for one in applications)

        until("the end of all", lambda: states() == {"COMPLETED": HOW_MANY}, 240, tell=lambda: str(states()))
        owners = Counter(pod["metadata"]["ownerReferences"][0]["uid"] for pod in drivers())
        assert Counter(owners.values()) == {1: HOW_MANY}
    finally:
        deployment.install(installed)
        kubectl("delete", "sparkapplications", "-n", JOBS, "-l", OURS, "--wait=false", timeout=120)
    until("nothing is left", lambda: not drivers() and not items("sparkapplications", JOBS, OURS), 180)
