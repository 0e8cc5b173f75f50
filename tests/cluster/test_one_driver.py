"""Exactly one driver, wherever the operator dies."""

import asyncio
import json

import pytest

from rekindle.controller.kube import Kube
from tests.cluster import deployment
from tests.cluster.crashes import Life
from tests.cluster.deployment import NAMESPACE, RELEASE
from tests.kind.kubectl import kubeconfig, kubectl

pytestmark = pytest.mark.timeout(900)

DEADLINE = 90.0


@pytest.fixture(scope="module")
def without_the_installed_operator(installed):
    """Its place is taken by operators of this process."""
    scale = ("scale", "deployment", RELEASE, "-n", NAMESPACE)
    kubectl(*scale, "--replicas=0")
    kubectl("wait", "pods", "-n", NAMESPACE, "--for=delete", "--all", "--timeout=60s", timeout=70)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(kubeconfig()))
        yield
    kubectl(*scale, "--replicas=1")
    kubectl("rollout", "status", f"deployment/{RELEASE}", "-n", NAMESPACE, "--timeout=90s", timeout=100)


def manifest(image: str) -> dict:
    return {
        "metadata": {"name": "life"},
        "spec": {
            "type": "Python",
            "sparkVersion": "4.3.0",
            "image": image,
            "mainApplicationFile": "local:///app/pi.py",
            "restartPolicy": {"type": "OnInfrastructureFailure", "onInfrastructureFailureRetryInterval": 1},
            "driver": {"nodeSelector": {"there-is": "no-such-node"}},
            "executor": {"instances": 1},
        },
    }


async def live(kube: Kube, image: str, at: int | None, after: bool) -> Life:
    """One life with a crash at that call; everything that must hold of it is checked here."""
    life = Life(kube, f"life-{at or 0}-{'after' if after else 'before'}", at, after)
    deployment.make_namespace(life.namespace)
    try:
        async with asyncio.timeout(DEADLINE):
            ended = await life.live(manifest(image))
    except TimeoutError:
        there = kubectl("get", "sparkapplications,pods,leases", "-n", life.namespace, "-o", "yaml")
        pytest.fail(f"crash {'after' if after else 'before'} call {at}: not over in {DEADLINE:g} s\n{there}")
    finally:
        kubectl("delete", "namespace", life.namespace, "--wait=false")
    where = f"crash {'after' if after else 'before'} call {at}"
    status = ended["status"]
    assert status["applicationState"]["state"] == "COMPLETED", f"{where}: {json.dumps(status, indent=1)}"
    assert status["attempt"] == 2, f"{where}: {json.dumps(status, indent=1)}"
    assert life.most_alive == 1, f"{where}: two drivers at once"
    assert len(life.drivers) == 2, f"{where}: {life.drivers}"
    return life


@pytest.mark.parametrize("after", [pytest.param(False, marks=pytest.mark.soak), True], ids=["before", "after"])
def test_an_operator_may_die_at_each_of_its_calls(without_the_installed_operator, images, after):
    """After one is nearly before the next: what changes nothing lies between."""

    async def case() -> None:
        kube = await Kube.connect()
        try:
            whole = await live(kube, images.spark, None, False)
            assert whole.calls >= 20
            lives = [await live(kube, images.spark, at, after) for at in range(1, whole.calls + 1)]
            deaths = [death for life in (whole, *lives) for death in life.deaths]
            assert len(deaths) <= 1, deaths  # an API server may fail once; an operator that always ends here is wrong
            assert sum(life.crashed for life in lives) >= 20  # how many calls a life takes varies by one or two
        finally:
            await kube.close()

    asyncio.run(case())
