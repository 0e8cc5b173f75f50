"""`make cluster` and `make cluster-down`: one control plane and three workers, made whole or not at all.

The kubeconfig is .build/kubeconfig; the record beside it says what the nodes are made of and where they are. A cluster
that is up and healthy is kept, anything less is removed and made again.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.kind import audit, binaries, engine, network, storage, versions
from tests.kind.engine import docker
from tests.kind.images import content_tag, image_exists, import_tree, load_images, remove_outdated, why_not_pulled
from tests.kind.kubectl import BUILD, given_kubeconfig, kubeconfig, kubectl
from tests.kind.network import Place
from tests.kind.node_image import node_image, node_image_tag
from tests.kind.processes import Failed, cache, run, run_logged, say, step, wait_until

NAME = "rekindle"
CONTROL_PLANE = f"{NAME}-control-plane"
WORKERS = (f"{NAME}-worker", f"{NAME}-worker2", f"{NAME}-worker3")
NODES = (CONTROL_PLANE, *WORKERS)

_RECORD = BUILD / "cluster.json"
_METRICS_MANIFEST = Path(__file__).parent / "metrics-server.yaml"
_CREATE_SECONDS, _DELETE_SECONDS, _READY_SECONDS = 300, 120, 180


@dataclass(frozen=True)
class Record:
    """What stands: the nodes' image, whether it is ours, and where each node is."""

    image: str
    own_image: bool
    places: Mapping[str, Place]

    def write(self) -> None:
        _RECORD.write_text(json.dumps(asdict(self), indent=1))


def read_record() -> Record | None:
    """None where no cluster of ours was made whole."""
    try:
        written = json.loads(_RECORD.read_text())
        places = {node: Place(**place) for node, place in written["places"].items()}
        return Record(written["image"], written["own_image"], places)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def up(node_images: str = "auto") -> None:
    """Have a cluster. `node_images`: "kind" for kind's own, "own" for ours, "auto" for what can be had."""
    if given_kubeconfig() is not None:
        say(f"REKINDLE_TEST_KUBECONFIG is set: the cluster is {kubeconfig()}, and is left as it is")
        return
    engine.start()
    if (problem := why_unhealthy()) is None:
        say(f"the cluster is up: export KUBECONFIG={kubeconfig()}")
        return
    if _exists():
        say(f"removing a cluster that is not whole: {problem}")
        _remove()
    image, own = _choose_image(node_images)
    binaries.build(binaries.CLIENTS)
    try:
        _create(image, own)
    except BaseException:
        _save_logs()
        _remove()
        raise
    say(f"the cluster is up: export KUBECONFIG={kubeconfig()}")


def down() -> None:
    """Leave nothing of the cluster, nor of a dockerd that we started for it; what was built stays in the cache."""
    if engine.runs() and _exists():
        with step("removing the cluster"):
            _remove()
    if engine.ours() is not None and engine.runs():
        try:
            remove_outdated()
        except Failed as failed:  # only room is lost
            say(f"outdated images stay in the cache: {failed}")
    engine.stop()


def build() -> None:
    """Everything that takes long, without making the cluster."""
    if given_kubeconfig() is not None:
        return
    engine.start()
    _choose_image("auto")
    binaries.build(binaries.CLIENTS)


def why_unhealthy() -> str | None:
    """What is wrong with the cluster, None when nothing is."""
    record = read_record()
    if record is None or not kubeconfig().exists():
        return "none was made whole"
    try:
        if record.own_image and record.image != node_image_tag():
            return f"it was made from {record.image}, which is no longer the node image"
        for node, place in record.places.items():
            if (now := _state(node)) not in (f"running 0 {place.address}", f"running -1 {place.address}"):
                return f"{node} is changed (state, CPU quota, address): {now}"
        unready = [node for node in NODES if not is_ready(node)]
        return f"not Ready: {', '.join(unready)}" if unready else None
    except Failed as failed:
        return str(failed)


def _state(node: str) -> str:
    """Everything that levers change."""
    state = docker("inspect", "--format", "{{.State.Status}} {{.HostConfig.CpuQuota}}", node).strip()
    return f"{state} {network.address_of(node)}"


def is_ready(node: str) -> bool:
    """Whether the API server takes the node for Ready."""
    ready = '{.status.conditions[?(@.type=="Ready")].status}'
    return kubectl("get", "node", node, "-o", f"jsonpath={ready}", "--request-timeout=5s", timeout=15) == "True"


def wait_for_node(node: str, *, ready: bool, seconds: float = _READY_SECONDS) -> float:
    """Until the API server takes the node for Ready, or no longer does; the seconds it took."""

    def seen() -> bool:
        try:
            return is_ready(node) == ready
        except Failed:  # the API server may be away for a moment
            return False

    return wait_until(f"{node} {'Ready' if ready else 'not Ready'}", seen, seconds=seconds, every=0.5)


def load(*tags: str) -> None:
    """Put images into every worker."""
    load_images(tags, WORKERS)


def _create(image: str, own: bool) -> None:
    BUILD.mkdir(exist_ok=True)
    network.create()
    mounts = {storage.IN_NODE: storage.prepare_folder(), audit.IN_NODE: audit.prepare_folder()}
    with step(f"kind makes the nodes from {image}"):
        kind = binaries.KIND.path("kind")
        command: list[str | Path] = [kind, "create", "cluster", "--name", NAME, "--image", image]
        command += ["--config", _written_config(mounts, own), "--kubeconfig", kubeconfig(), "--retain"]
        run_logged("kind-create", command, timeout=_CREATE_SECONDS, env={**_KIND, "KUBECONFIG": str(kubeconfig())})
    places = _places()
    if own:
        say("laying the pod network")
        for node in NODES:
            network.lay(node, places)
    _add_metrics_server()
    storage.apply()
    with step("waiting for the nodes, cluster DNS and metrics"):
        for node in NODES:
            wait_for_node(node, ready=True)
        for deployment in ("coredns", "metrics-server"):
            _wait_for_deployment(deployment)
        wait_until("kubectl top nodes", _metrics_served, seconds=_READY_SECONDS, every=1)
    Record(image, own, places).write()


_KIND = {"KIND_EXPERIMENTAL_DOCKER_NETWORK": network.NAME, "KIND_EXPERIMENTAL_PROVIDER": "docker"}


def _choose_image(wanted: str) -> tuple[str, bool]:
    """The image of the nodes, and whether it is ours."""
    if wanted == "own" or (wanted == "auto" and image_exists(node_image_tag())):
        return node_image(), True
    with step(f"asking a registry for {versions.KIND_IMAGE}"):
        if (problem := why_not_pulled(versions.KIND_IMAGE)) is None:
            return versions.KIND_IMAGE, False
    if wanted == "kind":
        raise Failed(f"{versions.KIND_IMAGE} cannot be had: {problem}")
    say(f"no image registry here, so the node image is built: {problem}")
    return node_image(), True


def kind_config(mounts: Mapping[str, Path], own: bool) -> dict[str, Any]:
    """What `kind create cluster` is told; `mounts` are the machine's folders by their paths in the nodes."""
    mounted = [{"hostPath": str(folder), "containerPath": path} for path, folder in mounts.items()]
    unified = Path("/sys/fs/cgroup/cgroup.controllers").exists() or not sys.platform.startswith("linux")
    kubelet: dict[str, Any] = {"kind": "KubeletConfiguration", "failCgroupV1": False}  # refused since Kubernetes 1.35
    kubelet["cpuCFSQuota"] = unified  # cgroup v1 refuses a node less CPU than one of its pods may have: see `slow`
    roles = ["control-plane", *("worker" for _ in WORKERS)]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"disableDefaultCNI": own, "podSubnet": network.POD_SUBNET},
        "kubeadmConfigPatches": [json.dumps(kubelet), json.dumps(audit.cluster_configuration())],
        "nodes": [{"role": role, "extraMounts": mounted} for role in roles],
    }


def _written_config(mounts: Mapping[str, Path], own: bool) -> Path:
    path = BUILD / "kind.json"
    path.write_text(json.dumps(kind_config(mounts, own), indent=1))
    return path


def _places() -> dict[str, Place]:
    """Where the nodes are; the controller manager gives each its pod subnet a moment after it joined."""

    def subnets() -> dict[str, str]:
        items = json.loads(kubectl("get", "nodes", "-o", "json"))["items"]
        return {item["metadata"]["name"]: item["spec"].get("podCIDR", "") for item in items}

    wait_until("a pod subnet for every node", lambda: all(subnets().get(node) for node in NODES), seconds=60)
    return {node: Place(network.address_of(node), subnet) for node, subnet in subnets().items()}


def _add_metrics_server() -> None:
    program = binaries.METRICS_SERVER.path("metrics-server")
    tag = content_tag("rekindle-test/metrics-server", program.parent.name)
    if not image_exists(tag):
        with TemporaryDirectory(dir=cache()) as folder:
            shutil.copy(program, folder)
            import_tree(tag, ["-C", folder, "-c", program.name], [f"/{program.name}"])
    load_images([tag], [CONTROL_PLANE])
    kubectl("apply", "-f", "-", text=_METRICS_MANIFEST.read_text().replace("@IMAGE@", tag))


def _wait_for_deployment(name: str) -> None:
    arguments = ("-n", "kube-system", "rollout", "status", f"deployment/{name}", f"--timeout={_READY_SECONDS}s")
    kubectl(*arguments, timeout=_READY_SECONDS + 10)


def _metrics_served() -> bool:
    try:
        return len(kubectl("top", "nodes", "--no-headers").splitlines()) == len(NODES)
    except Failed:
        return False


def _exists() -> bool:
    """Whether there is anything of a cluster: containers, the network, files."""
    containers = docker("ps", "--all", "--quiet", "--filter", f"label=io.x-k8s.kind.cluster={NAME}")
    networks = docker("network", "ls", "--quiet", "--filter", f"name=^{network.NAME}$")
    return bool(containers.strip() or networks.strip() or _RECORD.exists() or storage.host_folder().exists())


def _remove() -> None:
    """Also what is half made: kind is asked if it is there, then every container is removed by its label."""
    _RECORD.unlink(missing_ok=True)
    label = f"label=io.x-k8s.kind.cluster={NAME}"
    if containers := docker("ps", "--all", "--quiet", "--filter", label).split():
        docker("rm", "--force", "--volumes", *containers, timeout=_DELETE_SECONDS)
    network.remove()
    storage.remove_folder()
    audit.remove_folder()
    for file in (BUILD / "kubeconfig", BUILD / "kind.json"):
        file.unlink(missing_ok=True)


def _save_logs() -> None:
    """What the nodes said, for a cluster that could not be made is removed."""
    kind, folder = binaries.KIND.path("kind"), cache() / "logs" / "nodes"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        run([kind, "export", "logs", "--name", NAME, folder], timeout=_DELETE_SECONDS, env=_KIND)
        say(f"the nodes' logs are in {folder}")
    except Failed as failed:
        say(f"the nodes' logs could not be saved: {failed}")
