"""Executor pods and their claims as an API server stored them: Spark 4.3 on Kubernetes 1.36, trimmed."""

from typing import Any

Object = dict[str, Any]

DRIVER = {"apiVersion": "v1", "controller": True, "kind": "Pod", "name": "etl-f96938bd8c-1-driver", "uid": "b62f-9c39"}
SPOT = {"effect": "NoSchedule", "key": "spot", "operator": "Exists"}
IMPATIENT = {
    "effect": "NoExecute",
    "key": "node.kubernetes.io/unreachable",
    "operator": "Exists",
    "tolerationSeconds": 5,
}


def executor_pod(
    number: int = 1,
    *,
    prefix: str = "etl-f96938bd8c-1",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    claims: tuple[str, ...] = (),
    **spec: Any,
) -> Object:
    """A running executor of Spark 4.3 with a sidecar and an init container, on Kubernetes 1.36."""
    name = f"{prefix}-exec-{number}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "jobs",
            "uid": "f6545e55-6e52-4270-aa20-1283fdd12b1a",
            "resourceVersion": "3423",
            "generation": 1,
            "creationTimestamp": "2026-11-22T21:03:38Z",
            "generateName": "etl-",
            "deletionTimestamp": "2026-11-22T22:03:38Z",
            "deletionGracePeriodSeconds": 30,
            "finalizers": ["example.com/accounting"],
            "managedFields": [{"manager": "fabric8-kubernetes-client", "operation": "Update"}],
            "labels": {
                "rekindle.dev/application": "etl",
                "spark-app-selector": "spark-5429de112b79-1",
                "spark-exec-id": str(number),
                "spark-exec-resourceprofile-id": "0",
                "spark-role": "executor",
                "team": "red",
                "topology.kubernetes.io/region": "r1",
                "topology.kubernetes.io/zone": "z1",
                **(labels or {}),
            },
            "annotations": {
                "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu, memory request for container beside",
                "prometheus.io/scrape": "true",
                **(annotations or {}),
            },
            "ownerReferences": [DRIVER],
        },
        "spec": _stored_spec(name, number, claims) | spec,
        "status": {"phase": "Running", "podIP": "10.244.2.2"},
    }


def _stored_spec(name: str, number: int, claims: tuple[str, ...]) -> Object:
    token = {"name": "kube-api-access-595qr", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    default = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 300}
    variables = {"SPARK_EXECUTOR_CORES": "1", "SPARK_EXECUTOR_ID": str(number), "SPARK_RESOURCE_PROFILE_ID": "0"}
    variables |= {"SPARK_LOCAL_DIRS": f"/scratch/{name},/more", "OTHER": f"{name}0"}
    return {
        "containers": [
            {"name": "beside", "command": ["sh", "-c", f"tail -f /logs/{name}.log"], "volumeMounts": [token]},
            {
                "name": "spark-kubernetes-executor",
                "args": ["executor", "--cores", "1", "--executor-id", str(number), f"--executor-id={number}"],
                "env": [
                    *({"name": key, "value": value} for key, value in variables.items()),
                    {"name": "SPARK_EXECUTOR_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ],
                "volumeMounts": [{"mountPath": "/var/data", "name": "spark-local-dir-1"}, token],
            },
        ],
        "initContainers": [{"name": "prepare", "command": ["true"], "volumeMounts": [token]}],
        "ephemeralContainers": [{"name": "debugger"}],
        "schedulingGates": [{"name": "example.com/quota"}],
        "hostname": name,
        "nodeName": "worker",
        "overhead": {"cpu": "250m"},
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 1000,
        "priorityClassName": "high",
        "restartPolicy": "Never",
        "serviceAccountName": "spark",
        "tolerations": [
            SPOT,
            IMPATIENT,
            {"key": "node.kubernetes.io/not-ready", **default},
            {"key": "node.kubernetes.io/unreachable", **default},
        ],
        "volumes": [
            {"name": "spark-local-dir-1", "emptyDir": {}},
            *({"name": f"claim-{at}", "persistentVolumeClaim": {"claimName": one}} for at, one in enumerate(claims)),
            {"name": "kube-api-access-595qr", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        ],
    }


def stored_claim(name: str) -> Object:
    """A bound claim of Spark's, as it is stored."""
    return {
        "metadata": {
            "name": name,
            "namespace": "jobs",
            "uid": "31af0559",
            "resourceVersion": "4545",
            "creationTimestamp": "2026-11-22T21:10:35Z",
            "finalizers": ["kubernetes.io/pvc-protection"],
            "annotations": {"pv.kubernetes.io/bind-completed": "yes", "backup": "no"},
            "labels": {
                "spark-app-selector": "spark-5429de112b79-1",
                "team": "red",
                "app.kubernetes.io/part-of": "etl",
                "volume.kubernetes.io/zone": "z1",
            },
            "ownerReferences": [DRIVER],
        },
        "spec": {
            "accessModes": ["ReadWriteOncePod"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
            "volumeMode": "Filesystem",
            "volumeName": "pvc-6",
        },
        "status": {"phase": "Bound"},
    }
