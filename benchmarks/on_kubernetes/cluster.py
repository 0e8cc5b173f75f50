"""The cluster before and after: namespaces that go again, and an installed operator that is put aside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from benchmarks.on_kubernetes.application import ACCOUNT
from rekindle.controller.kube import Gone, Kube
from rekindle.controller.resources import SPARK_APPLICATION
from rekindle.local.java import find_java, spark_home
from rekindle.runtime.errors import EnvironmentProblem
from tests.kind.cluster import why_unhealthy
from tests.kind.kubectl import given_kubeconfig, kubeconfig, kubectl
from tests.kind.processes import Failed, say, wait_until

_KINDS = Path(__file__).resolve().parents[2] / "crds"
_KIND = "sparkapplications.rekindle.dev"
_INSTALLED = ("deployment", "rekindle", "-n", "rekindle-system")
_ITS_PODS = ("pods", "-n", "rekindle-system", "-l", "app.kubernetes.io/name=rekindle")


def why_not(scenarios: Sequence[str]) -> str | None:
    """Why nothing can be measured here."""
    given = given_kubeconfig()
    try:
        if given is None and (problem := why_unhealthy()) is not None:
            return f"no Kubernetes: {problem}; `make cluster` makes one"
        kubectl("get", "--raw", "/readyz", "--request-timeout=10s", timeout=15)
        if "submission" in scenarios:
            find_java()
            spark_home()
        return _who_would_miss_the_operator()
    except EnvironmentProblem as error:
        return str(error)
    except Failed as error:
        return f"no Kubernetes answers at {kubeconfig()}: {str(error).splitlines()[-1].strip(' |')}"


def _who_would_miss_the_operator() -> str | None:
    if not _replicas() or not kubectl("get", "crd", _KIND, "--ignore-not-found").strip():
        return None
    others = kubectl("get", _KIND, "-A", "-o", 'jsonpath={range .items[*]}{.metadata.namespace}{"\\n"}{end}').split()
    theirs = [namespace for namespace in others if not namespace.startswith("bench-")]
    return f"the cluster is in use: {len(theirs)} applications need the installed operator" if theirs else None


def _replicas() -> int:
    """Of the installed operator; 0 where there is none."""
    return int(kubectl("get", *_INSTALLED, "-o", "jsonpath={.spec.replicas}", "--ignore-not-found").strip() or 0)


def check_undisturbed() -> None:
    """Raises Failed where another operator works by now, on everything that is measured."""
    if _replicas():
        raise Failed("an operator was installed or scaled up meanwhile: these figures are worth nothing")


@contextmanager
def prepared() -> Iterator[None]:
    """The kinds are there, and stay; an installed operator does not work meanwhile."""
    if not kubectl("get", "crd", _KIND, "--ignore-not-found").strip():
        kubectl("apply", "--server-side", "-f", str(_KINDS))
        served = ("api-resources", "--api-group=rekindle.dev", "-o", "name")
        wait_until("the kinds are served", lambda: _KIND in kubectl(*served), seconds=30)
    with _installed_aside():
        yield


@contextmanager
def _installed_aside() -> Iterator[None]:
    if not (replicas := _replicas()):
        yield
        return
    kind, name, *where = _INSTALLED
    say(f"the installed operator is scaled from {replicas} to 0")
    try:
        kubectl("scale", kind, name, *where, "--replicas=0")
        no_pods = ("get", *_ITS_PODS, "-o", "name")
        wait_until("the installed operator is gone", lambda: not kubectl(*no_pods).strip(), seconds=60, every=1)
        yield
    finally:
        kubectl("scale", kind, name, *where, f"--replicas={replicas}")
        say(f"the installed operator is scaled back to {replicas}")


@asynccontextmanager
async def namespace(kube: Kube, name: str) -> AsyncIterator[str]:
    """A new namespace with Spark's service account; at the end nothing of it is left."""
    await _remove(kube, name)
    kubectl("create", "namespace", name)
    try:
        kubectl("create", "serviceaccount", ACCOUNT, "-n", name)
        yield name
    finally:
        await _remove(kube, name)


async def _remove(kube: Kube, name: str) -> None:
    """No operator works there any more, so finalizers are taken off here: no driver ever ran."""
    applications, _ = await kube.list_all(SPARK_APPLICATION, name)
    for one in applications:
        with suppress(Gone):
            await kube.patch(SPARK_APPLICATION, name, one["metadata"]["name"], {"metadata": {"finalizers": None}})
    if kubectl("get", "namespace", name, "--ignore-not-found").strip():
        say(f"removing namespace {name}")
        kubectl("delete", "namespace", name, "--ignore-not-found", "--timeout=180s", timeout=190)
