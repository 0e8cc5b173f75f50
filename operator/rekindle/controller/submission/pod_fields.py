"""The fields that driver and executor pods have in common: from a SparkPodSpec to a pod's metadata and spec.

Each function adds one part to a pod that may come from the user's template; what the template says stays
unless the typed field says otherwise, and lists grow.
"""

from collections.abc import Mapping
from typing import Any

from rekindle.api.pod_spec import SparkPodSpec
from rekindle.api.spark_application import SparkApplicationSpec
from rekindle.controller.affinity import requiring
from rekindle.controller.blocks.marks import AVOIDS_BLOCKED
from rekindle.controller.resources import Object

_SECRET_VARIABLES = {
    "GCPServiceAccount": ("GOOGLE_APPLICATION_CREDENTIALS", "key.json"),
    "HadoopDelegationToken": ("HADOOP_TOKEN_FILE_LOCATION", "hadoop.token"),
}


def from_template(template: Mapping[str, Any] | None, container: str) -> tuple[Object, Object]:
    """A pod from the user's template, and its container called `container`: the one of that name, else the first."""
    given = template or {}
    pod: Object = {"metadata": {**given.get("metadata", {})}, "spec": {**given.get("spec", {})}}
    containers = [{**item} for item in pod["spec"].get("containers") or ()]
    chosen = next((item for item in containers if item.get("name") == container), None)
    chosen = chosen or (containers[0] if containers else {})
    chosen["name"] = container
    others = [item for item in containers if item is not chosen]
    pod["spec"]["containers"] = [chosen, *others]
    return pod, chosen


def add_metadata(pod: Object, labels: Mapping[str, str], annotations: Mapping[str, str] | None) -> None:
    """Labels and annotations; ours win over the template's."""
    metadata = pod["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    if annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}


def add_pod_fields(pod: Object, application: SparkApplicationSpec, spec: SparkPodSpec) -> None:
    """Everything of `spec` that belongs to the pod as a whole."""
    chosen = {
        "affinity": spec.affinity,
        "securityContext": spec.pod_security_context,
        "schedulerName": spec.scheduler_name,
        "priorityClassName": spec.priority_class_name,
        "hostNetwork": spec.host_network,
        "hostAliases": spec.host_aliases,
        "dnsConfig": spec.dns_config,
        "terminationGracePeriodSeconds": spec.termination_grace_period_seconds,
        "serviceAccountName": spec.service_account,
        "shareProcessNamespace": spec.share_process_namespace,
    }
    target = pod["spec"]
    target.update({name: value for name, value in chosen.items() if value is not None})
    if spec.host_network:
        target["dnsPolicy"] = "ClusterFirstWithHostNet"
    if selector := {**(application.node_selector or {}), **(spec.node_selector or {})}:
        target["nodeSelector"] = {**(target.get("nodeSelector") or {}), **selector}
    _extend(target, "tolerations", spec.tolerations)
    _extend(target, "containers", spec.sidecars)
    _extend(target, "initContainers", spec.init_containers)
    _extend(target, "volumes", [*_used_volumes(application, spec, target), *_volumes_of(spec)])
    _extend(target, "imagePullSecrets", [{"name": name} for name in application.image_pull_secrets or ()])


def avoid_blocked_nodes(pod: Object) -> None:
    """Whatever affinity the pod has, its node is none that is blocked: also where blocked nodes are not tainted."""
    pod["spec"]["affinity"] = requiring(pod["spec"].get("affinity"), AVOIDS_BLOCKED)


def add_container_fields(container: Object, spec: SparkPodSpec) -> None:
    """Everything of `spec` that belongs to Spark's container."""
    if spec.security_context is not None:
        container["securityContext"] = spec.security_context
    _extend(container, "env", [*environment(spec), *_secret_variables(spec)])
    _extend(container, "envFrom", spec.env_from)
    _extend(container, "volumeMounts", [*(spec.volume_mounts or ()), *_mounts_of(spec)])
    _extend(container, "ports", [port.model_dump(by_alias=True, exclude_none=True) for port in spec.ports or ()])


def environment(spec: SparkPodSpec) -> list[Object]:
    """The variables of `env`, and before them those of Kubeflow's older fields that `env` does not name."""
    named = {variable.name for variable in spec.env}
    older: list[Object] = [{"name": name, "value": value} for name, value in spec.env_vars.items()]
    older += [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": ref.name, "key": ref.key}}}
        for name, ref in (spec.env_secret_key_refs or {}).items()
    ]
    newer: list[Object] = [
        {"name": item.name, "value": item.value}
        if item.value_from is None
        else {"name": item.name, "valueFrom": item.value_from}
        for item in spec.env
    ]
    return [item for item in older if item["name"] not in named] + newer


def _secret_variables(spec: SparkPodSpec) -> list[Object]:
    """Where a secret's type says who reads it: the variable that points there."""
    found = []
    for secret in spec.secrets or ():
        if (known := _SECRET_VARIABLES.get(secret.secret_type)) is not None:
            found.append({"name": known[0], "value": f"{secret.path}/{known[1]}"})
    return found


def _used_volumes(application: SparkApplicationSpec, spec: SparkPodSpec, pod: Object) -> list[Object]:
    """The application's volumes that a container of this pod mounts: a pod waits for a volume even unmounted."""
    own = [*pod["containers"], *(pod.get("initContainers") or ())]  # the template's too
    containers = [*own, {"volumeMounts": spec.volume_mounts or ()}]
    mounted = {mount.get("name") for container in containers for mount in container.get("volumeMounts") or ()}
    return [volume for volume in application.volumes or () if volume.get("name") in mounted]


def _volumes_of(spec: SparkPodSpec) -> list[Object]:
    maps = [{"name": f"{item.name}-vol", "configMap": {"name": item.name}} for item in spec.config_maps or ()]
    return [*maps, *({"name": f"{s.name}-secret-vol", "secret": {"secretName": s.name}} for s in spec.secrets or ())]


def _mounts_of(spec: SparkPodSpec) -> list[Object]:
    maps = [{"name": f"{item.name}-vol", "mountPath": item.path} for item in spec.config_maps or ()]
    return [*maps, *({"name": f"{s.name}-secret-vol", "mountPath": s.path} for s in spec.secrets or ())]


def _extend(target: Object, name: str, more: object) -> None:
    if more:
        assert isinstance(more, list)
        target[name] = [*(target.get(name) or ()), *more]
