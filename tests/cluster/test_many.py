"""Hundreds of applications at once, while the operator is killed and uninstalled."""

import copy
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster import deployment, operators
from tests.cluster.api import apply, items, until
from tests.cluster.deployment import JOBS
from tests.kind.kubectl import kubectl

pytestmark = pytest.mark.timeout(900)

OURS = "tests.rekindle.dev/many"


def drivers() -> list[dict]:
    return items("pods", JOBS, f"{OURS},spark-role=driver")


@pytest.mark.parametrize("how_many", [100, pytest.param(300, marks=pytest.mark.soak)])
def test_each_of_hundreds_gets_one_driver_wherever_the_operator_is_killed(application, installed, how_many):
    """No driver is ever placed, so none costs a JVM; what kubelets say of them is written by hand."""
    first = application(
        "many", "pi.py", driver={"nodeSelector": {"there-is": "no-such-node"}, "labels": {OURS: "1"}}, executor={}
    ).manifest
    manifests = [copy.deepcopy(first) for _ in range(how_many)]
    for number, manifest in enumerate(manifests):
        manifest["metadata"] |= {"name": f"many-{number}", "labels": {OURS: "1"}}
    try:
        with ThreadPoolExecutor(1) as pool:
            applied = pool.submit(apply, *manifests)
            until("the first drivers", lambda: len(drivers()) >= how_many // 6)
            operators.kill()
            until("more drivers", lambda: len(drivers()) >= how_many // 3)
            deployment.uninstall()
            deployment.install(installed)
            applied.result()
        until("all drivers", lambda: len(drivers()) >= how_many, 240)
        pods = {"apiVersion": "v1", "kind": "List", "items": drivers()}
        ended = json.dumps({"status": {"phase": "Succeeded"}})
        kubectl(
            "patch", "-f", "-", "--subresource=status", "--type=merge", "-p", ended, text=json.dumps(pods), timeout=300
        )

        def states() -> Counter[str]:
            applications = items("sparkapplications", JOBS, OURS)
            return Counter(one.get("status", {}).get("applicationState", {}).get("state") for one in applications)

        until("the end of all", lambda: states() == {"COMPLETED": how_many}, 240, tell=lambda: str(states()))
        owners = Counter(pod["metadata"]["ownerReferences"][0]["uid"] for pod in drivers())
        assert Counter(owners.values()) == {1: how_many}
    finally:
        deployment.install(installed)
        kubectl("delete", "sparkapplications", "-n", JOBS, "-l", OURS, "--wait=false", timeout=120)
    until("nothing is left", lambda: not drivers() and not items("sparkapplications", JOBS, OURS), 180)
