"""What tests do to a cluster: slow a node, freeze it, kill it, cut it off, take the API server away, and bring it back.

Every function waits until what it did can be seen, with a deadline. The context managers undo what they did, also when
the test fails. Nodes are named as Kubernetes names them, which is how Docker names their containers too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kind import network
from tests.kind.cluster import CONTROL_PLANE, NODES, Record, read_record, wait_for_node
from tests.kind.engine import docker
from tests.kind.kubectl import kubectl
from tests.kind.processes import Failed, wait_until

_SEEN_SECONDS, _API_SECONDS, _READY_SECONDS = 60, 90, 180
_CPU_PERIOD = 100_000
_MANIFEST, _ASIDE = "/etc/kubernetes/manifests/kube-apiserver.yaml", "/etc/kubernetes/kube-apiserver.yaml"
_ETCD_MANIFEST, _ETCD_ASIDE = "/etc/kubernetes/manifests/etcd.yaml", "/etc/kubernetes/etcd.yaml"
_ETCD_DATA, _SAVED = "/var/lib/etcd", "/var/lib/etcd-saved"


def slow(node: str, cpus: float) -> None:
    """Give a node this many CPUs for everything that it runs, the kubelet included."""
    quota = round(cpus * _CPU_PERIOD)
    docker("update", "--cpu-period", str(_CPU_PERIOD), "--cpu-quota", str(quota), node)
    _wait_for_state(node, "{{.HostConfig.CpuQuota}}", str(quota))


def unslow(node: str) -> None:
    docker("update", "--cpu-quota", "-1", node)
    _wait_for_state(node, "{{.HostConfig.CpuQuota}}", "-1")


def pause(node: str) -> None:
    """Stop every process of a node where it is; its addresses stay, and nothing answers there."""
    docker("pause", node)
    _wait_for_state(node, "{{.State.Status}}", "paused")


def unpause(node: str) -> None:
    with _until_heard_of(node):
        docker("unpause", node)
        _wait_for_state(node, "{{.State.Status}}", "running")


def kill(node: str) -> None:
    """All of a node dies at once. Kubernetes takes some 50 s to notice: `wait_for_node(node, ready=False)`."""
    docker("kill", node)
    _wait_for_state(node, "{{.State.Running}}", "false")


def bring_back(node: str) -> None:
    """Start a killed node again under its old address, until it is Ready and its pods can be reached."""
    address = _record().places[node].address
    with _until_heard_of(node):
        network.disconnect(node)
        network.reconnect(node, address)
        docker("start", node)
        _wait_for_state(node, "{{.State.Running}}", "true")


def cut_off(node: str) -> None:
    """Take a node off the network. What it runs goes on, and nobody hears of it."""
    network.disconnect(node)
    wait_until(f"{node} without an address", lambda: not network.address_of(node), seconds=_SEEN_SECONDS)


def reconnect(node: str) -> None:
    """Give a cut off node its old address back, until it is Ready and its pods can be reached."""
    record = _record()
    with _until_heard_of(node):
        network.reconnect(node, record.places[node].address)
        if record.own_image:
            network.refresh(node)


def stop_api_server() -> None:
    """No API server, at once and until `start_api_server`; nodes and pods go on."""
    _on_control_plane(f"mv {_MANIFEST} {_ASIDE} && {{ pkill -KILL kube-apiserver || true; }}")
    wait_until("the end of the API server", _api_server_is_gone, seconds=_API_SECONDS)


def start_api_server() -> None:
    """Until it answers and the controllers hold their leases. Watches come back after a pause of their own: it can take
    another minute until a new service is served."""
    _on_control_plane(f"[ ! -e {_ASIDE} ] || mv {_ASIDE} {_MANIFEST}")
    wait_until("an API server that is ready", api_server_answers, seconds=_API_SECONDS, every=0.5)
    for leader in ("kube-controller-manager", "kube-scheduler"):  # each ends and starts anew when it lost its lease
        _wait_for_renewal("kube-system", leader, _renewed("kube-system", leader))


def save_etcd() -> None:
    """Keep a copy of all that the cluster knows now, as a crash of etcd at this moment would leave it."""
    copy = f"rm -rf {_SAVED} && cp -a {_ETCD_DATA} {_SAVED}"
    _on_control_plane(f"pkill -STOP -x etcd && {{ {copy}; status=$?; pkill -CONT -x etcd; exit $status; }}")


def restore_etcd() -> None:
    """Make what `save_etcd` kept all that the cluster knows; everything since is forgotten, and kubelets go on.

    The versions of objects go back too, so everything that watches them starts anew, as Kubernetes' manual asks for;
    but for what does not belong to the cluster itself.
    """
    stop_api_server()
    _on_control_plane(f"mv {_ETCD_MANIFEST} {_ETCD_ASIDE}")
    wait_until("the end of etcd", lambda: not _pids("etcd"), seconds=_API_SECONDS)
    _on_control_plane(f"rm -rf {_ETCD_DATA} && mv {_SAVED} {_ETCD_DATA} && mv {_ETCD_ASIDE} {_ETCD_MANIFEST}")
    _on_control_plane("pkill -KILL -x kube-controller; pkill -KILL -x kube-scheduler; true")
    start_api_server()
    for node in NODES:
        docker("exec", node, "sh", "-c", "systemctl restart kubelet; pkill -KILL -x 'kube-proxy|coredns'; true")
        wait_for_node(node, ready=True)


@contextmanager
def slowed(node: str, cpus: float) -> Iterator[None]:
    slow(node, cpus)
    try:
        yield
    finally:
        unslow(node)


@contextmanager
def paused(node: str) -> Iterator[None]:
    pause(node)
    try:
        yield
    finally:
        unpause(node)


@contextmanager
def killed(node: str) -> Iterator[None]:
    kill(node)
    try:
        yield
    finally:
        bring_back(node)


@contextmanager
def gone(node: str) -> Iterator[None]:
    """Dead, and its Node deleted, as a cloud's controller does where a machine is no more."""
    before = json.loads(kubectl("get", "node", node, "-o", "json"))
    kept = {name: before["metadata"].get(name) for name in ("name", "labels", "annotations")}
    same = {"apiVersion": "v1", "kind": "Node", "metadata": kept, "spec": before["spec"]}
    with killed(node):
        kubectl("delete", "node", node)
        try:
            yield
        finally:  # with the addresses of its pods; a kubelet that starts takes the Node that it finds
            kubectl("apply", "-f", "-", text=json.dumps(same))


@contextmanager
def isolated(node: str) -> Iterator[None]:
    cut_off(node)
    try:
        yield
    finally:
        reconnect(node)


@contextmanager
def without_api_server() -> Iterator[None]:
    stop_api_server()
    try:
        yield
    finally:
        start_api_server()


@contextmanager
def cordoned(*nodes: str) -> Iterator[None]:
    """No new pods there; those that run stay."""
    kubectl("cordon", *nodes)
    try:
        yield
    finally:
        kubectl("uncordon", *nodes)


def api_server_answers() -> bool:
    try:
        return kubectl("get", "--raw", "/readyz", "--request-timeout=3s", timeout=10) == "ok"
    except Failed:
        return False


@contextmanager
def _until_heard_of(node: str) -> Iterator[None]:
    """Until the node is Ready and has said so after the block began: what was known before may be long out of date."""
    before = _renewed("kube-node-lease", node)
    yield
    _wait_for_renewal("kube-node-lease", node, before)
    wait_for_node(node, ready=True)


def _wait_for_renewal(namespace: str, lease: str, before: str) -> None:
    said = f"a sign of life of {lease}"
    wait_until(said, lambda: _renewed(namespace, lease) not in ("", before), seconds=_READY_SECONDS)


def _renewed(namespace: str, lease: str) -> str:
    """When the holder of a lease last said that it lives; empty while no API server tells."""
    try:
        return kubectl("-n", namespace, "get", "lease", lease, "-o", "jsonpath={.spec.renewTime}")
    except Failed:
        return ""


def _api_server_is_gone() -> bool:
    """And stays so: the kubelet may have started one more before it saw that the manifest is gone."""
    if _pids("kube-apiserver"):
        _on_control_plane("pkill -KILL kube-apiserver || true")
        return False
    return not api_server_answers()


def _pids(program: str) -> list[str]:
    return docker("exec", CONTROL_PLANE, "sh", "-c", f"pgrep -x {program} || true").split()


def _on_control_plane(command: str) -> None:
    docker("exec", CONTROL_PLANE, "sh", "-c", command)


def _wait_for_state(node: str, template: str, wanted: str) -> None:
    def seen() -> bool:
        return docker("inspect", "--format", template, node).strip() == wanted

    wait_until(f"{template} {wanted} of {node}", seen, seconds=_SEEN_SECONDS)


def _record() -> Record:
    record = read_record()
    if record is None:
        raise Failed("no cluster of ours is up, so its nodes cannot be touched: make cluster")
    return record
