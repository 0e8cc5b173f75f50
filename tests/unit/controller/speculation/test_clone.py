"""A duplicate is the executor's pod once more, without what belongs to the one pod that is there."""

import re
from copy import deepcopy
from typing import Any

import pytest

from rekindle.controller.speculation.clone import (
    FIRST_ID,
    LABEL_DUPLICATE,
    LABEL_DUPLICATE_OF,
    claims_of,
    clone_of,
    next_ids,
    own_claims,
)
from tests.unit.controller.speculation.stored_pods import DRIVER, IMPATIENT, SPOT, Object, executor_pod, stored_claim

ID = 1_001_555
OF_ONE_POD = [
    *("nodeName", "worker", "status", "podIP", "resourceVersion", "creationTimestamp", "generation", "generateName"),
    *("managedFields", "finalizers", "deletionTimestamp", "deletionGracePeriodSeconds", "priority", "preemptionPolicy"),
    *("overhead", "ephemeralContainers", "schedulingGates", "kube-api-access-595qr", "projected"),
    *("kubernetes.io/limit-ranger", "spark-exec-inactive", "topology.kubernetes.io/zone"),
]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def made(pod: Object, *avoid: str) -> Object:
    """The duplicate; the pod stays as it is."""
    before = deepcopy(pod)
    clone = clone_of(pod, ID, avoid_nodes=avoid)
    assert pod == before
    return clone


def words_in(value: Any) -> list[str]:
    """All keys and texts of a JSON value."""
    if isinstance(value, dict):
        return [word for key, inner in value.items() for word in (key, *words_in(inner))]
    if isinstance(value, list):
        return [word for inner in value for word in words_in(inner)]
    return [value] if isinstance(value, str) else []


def required_terms(spec: Object) -> list[Object]:
    return list(spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"])


def test_the_driver_sees_another_executor_of_its_own() -> None:
    clone = made(executor_pod())
    assert set(clone) == {"metadata", "spec"}
    assert clone["metadata"] == {
        "name": f"etl-f96938bd8c-1-exec-{ID}",
        "namespace": "jobs",
        "labels": {
            "rekindle.dev/application": "etl",
            "spark-app-selector": "spark-5429de112b79-1",
            "spark-exec-id": str(ID),
            "spark-exec-resourceprofile-id": "0",
            "spark-role": "executor",
            "team": "red",
            LABEL_DUPLICATE: "true",
            LABEL_DUPLICATE_OF: "1",
        },
        "annotations": {"prometheus.io/scrape": "true"},
        "ownerReferences": [DRIVER],
    }


def test_nothing_is_left_of_what_belongs_to_the_one_pod() -> None:
    pod = executor_pod(labels={"spark-exec-inactive": "true"}, claims=("etl-f96938bd8c-1-exec-1-pvc-0",))
    words = words_in(made(pod))
    assert [one for one in OF_ONE_POD if one in words_in(pod)] == OF_ONE_POD
    assert [one for one in OF_ONE_POD if one in words] == []
    assert words.count("uid") == 1  # the owner's
    assert [word for word in words if re.search("exec-1(?![0-9])", word)] == []


def test_what_the_user_asked_for_stays() -> None:
    spec = made(executor_pod())["spec"]
    assert spec["tolerations"] == [SPOT, IMPATIENT]
    assert (spec["priorityClassName"], spec["serviceAccountName"]) == ("high", "spark")
    assert [volume["name"] for volume in spec["volumes"]] == ["spark-local-dir-1"]
    mounts = [c["volumeMounts"] for c in [*spec["initContainers"], *spec["containers"]]]
    assert mounts == [[], [], [{"mountPath": "/var/data", "name": "spark-local-dir-1"}]]


def test_a_users_volume_may_be_called_like_the_tokens() -> None:
    volume = {"name": "kube-api-access-mine", "emptyDir": {}}
    assert made(executor_pod(volumes=[volume]))["spec"]["volumes"] == [volume]


def test_the_id_and_the_name_are_replaced_where_they_stand_in_words() -> None:
    beside, spark = made(executor_pod())["spec"]["containers"]
    name = f"etl-f96938bd8c-1-exec-{ID}"
    assert beside["command"][-1] == f"tail -f /logs/{name}.log"
    assert spark["args"] == ["executor", "--cores", "1", "--executor-id", str(ID), f"--executor-id={ID}"]
    assert {one["name"]: one.get("value") for one in spark["env"]} == {
        "SPARK_EXECUTOR_CORES": "1",  # the id's figure too, and no id
        "SPARK_EXECUTOR_ID": str(ID),
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_LOCAL_DIRS": f"/scratch/{name},/more",
        "OTHER": "etl-f96938bd8c-1-exec-10",  # another executor
        "SPARK_EXECUTOR_POD_NAME": None,
    }


@pytest.mark.parametrize(("prefix", "length"), [("p", 14), ("p" * 47, 60), ("p" * 60, 63), ("p" * 3 + "-" * 60, 12)])
def test_a_hostname_is_made_as_spark_makes_it(prefix: str, length: int) -> None:
    clone = made(executor_pod(prefix=prefix))
    hostname = clone["spec"]["hostname"]
    assert clone["metadata"]["name"] == f"{prefix}-exec-{ID}"
    assert len(hostname) == length
    assert hostname[0].isalnum()
    assert clone["metadata"]["name"].endswith(hostname)


@pytest.mark.parametrize(
    ("annotation", "stays"),
    [
        ("cni.projectcalico.org/podIPs", False),
        ("cni.projectcalico.org/containerID", False),
        ("cni.projectcalico.org/ipv4pools", True),
        ("k8s.v1.cni.cncf.io/network-status", False),
        ("k8s.v1.cni.cncf.io/networks", True),
        ("k8s.ovn.org/pod-networks", False),
        ("openshift.io/scc", False),
        ("vault.hashicorp.com/agent-inject", True),
        # the containers are there already: the injector must know
        ("vault.hashicorp.com/agent-inject-status", True),
        ("sidecar.istio.io/status", True),
    ],
)
def test_annotations_of_networks_and_admission_go_and_all_others_stay(annotation: str, stays: bool) -> None:
    annotations = made(executor_pod(annotations={annotation: "x"}))["metadata"]["annotations"]
    assert (annotation in annotations) == stays


def test_a_duplicate_of_a_duplicate_is_one_of_the_same_executor() -> None:
    first = made(executor_pod())
    second = clone_of(first, ID + 1, avoid_nodes=())
    assert second["metadata"]["name"] == f"etl-f96938bd8c-1-exec-{ID + 1}"
    assert second["metadata"]["labels"][LABEL_DUPLICATE_OF] == "1"


def test_no_nodes_to_avoid_leave_the_affinity_alone() -> None:
    theirs: Object = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    assert "affinity" not in made(executor_pod())["spec"]
    assert made(executor_pod(affinity=theirs))["spec"]["affinity"] == theirs


def test_nodes_are_avoided_beside_what_the_user_asks_for() -> None:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "b"]}
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["c"]}]}
    theirs: Object = {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [here]}, field, {}]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": deepcopy(field)}],
        },
        "podAffinity": {},
    }
    away = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["a", "c"]}
    spec = made(executor_pod(affinity=theirs), "c", "a", "c")["spec"]
    assert required_terms(spec) == [{"matchExpressions": [here, away]}, field | {"matchExpressions": [away]}, {}]
    del spec["affinity"]["nodeAffinity"][REQUIRED], theirs["nodeAffinity"][REQUIRED]
    assert spec["affinity"] == theirs


def test_nodes_are_avoided_where_nothing_is_asked_for() -> None:
    away = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["worker"]}
    affinities: list[Object] = [{}, {"podAffinity": {}}, {"nodeAffinity": {}}]
    for pod in (executor_pod(), *(executor_pod(affinity=affinity) for affinity in affinities)):
        assert required_terms(made(pod, "worker")["spec"]) == [{"matchExpressions": [away]}]


def test_claims_that_spark_made_become_new_ones_and_others_are_shared() -> None:
    # executor 3 has its own, that of executor 1 that is gone, with the same number, one of `claimName=fast-OnDemand`,
    # and the first twice
    old = [f"etl-f96938bd8c-1-exec-{rest}" for rest in ("3-pvc-1", "1-pvc-1")] + ["fast-etl-f96938bd8c-1-exec-3-pvc-2"]
    shared = ["data", "etl-f96938bd8c-1-driver-pvc-0", "other-1-exec-3-pvc-0", "metl-f96938bd8c-1-exec-3-pvc-0"]
    pod = executor_pod(3, claims=(*old, old[0], *shared))
    clone = made(pod)
    new = [f"etl-f96938bd8c-1-exec-{ID}-pvc-{number}" for number in range(3)]
    volumes = clone["spec"]["volumes"]
    claimed = [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]
    assert own_claims(pod) == old
    assert claimed == [*new, new[0], *shared]
    claims = {name: stored_claim(name) for name in (*old, "data")}
    assert [claim["metadata"]["name"] for claim in claims_of(pod, clone, claims)] == new


def test_a_new_claim_asks_for_the_same_and_for_no_volume() -> None:
    name = "etl-f96938bd8c-1-exec-1-pvc-0"
    pod, claims = executor_pod(claims=(name,)), {name: stored_claim(name)}
    before = deepcopy(claims)
    (claim,) = claims_of(pod, made(pod), claims)
    assert claims == before
    assert claim["metadata"] == {
        "name": f"etl-f96938bd8c-1-exec-{ID}-pvc-0",
        "namespace": "jobs",
        "annotations": {"backup": "no"},
        "labels": {
            "spark-app-selector": "spark-5429de112b79-1",
            "team": "red",
            "app.kubernetes.io/part-of": "etl",
            LABEL_DUPLICATE: "true",
            LABEL_DUPLICATE_OF: "1",
        },
        "ownerReferences": [DRIVER],
    }
    assert claim["spec"] == {key: value for key, value in before[name]["spec"].items() if key != "volumeName"}


def test_a_claim_that_is_not_there_is_named() -> None:
    pod = executor_pod(claims=("etl-f96938bd8c-1-exec-1-pvc-0",))
    with pytest.raises(ValueError, match=r"etl-f96938bd8c-1-exec-1: its claims etl-f96938bd8c-1-exec-1-pvc-0 are not"):
        claims_of(pod, made(pod), {})


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({"spark-role": "driver"}, "is no executor: its label spark-role is 'driver'"),
        ({"spark-exec-id": "EXECID"}, "no executor with a number: its label spark-exec-id is 'EXECID'"),
        ({"spark-exec-id": ""}, "no executor with a number"),
        ({"spark-exec-id": "2"}, "does not end in -exec-2"),
    ],
)
def test_what_is_no_executor_of_a_driver_is_refused(labels: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        clone_of(executor_pod(labels=labels), ID, avoid_nodes=())


@pytest.mark.parametrize("number", [1, FIRST_ID - 1, 2**31])
def test_an_id_that_the_driver_may_give_or_cannot_hold_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=f"executor id {number}"):
        clone_of(executor_pod(), number, avoid_nodes=())


@pytest.mark.parametrize(
    ("existing", "count", "seconds", "ids"),
    [
        ([], 1, 0.0, [FIRST_ID]),
        ([], 1, -5.0, [FIRST_ID]),
        ([1, 2], 2, 155.58, [1_001_555, 1_001_556]),
        ([1, 1_001_555, 1_001_560], 2, 155.5, [1_001_561, 1_001_562]),
        ([1_000_003], 1, 10.0, [1_000_100]),
        ([], 0, 10.0, []),
    ],
)
def test_ids_follow_the_drivers_age(existing: list[int], count: int, seconds: float, ids: list[int]) -> None:
    assert next_ids(existing, count, seconds) == ids


def test_ids_rise_when_the_pods_of_earlier_ones_are_gone() -> None:
    given = [one for second in range(1, 1000, 7) for one in next_ids([1, 2], 20, float(second))]
    assert given == sorted(set(given))


def test_ids_that_do_not_fit_in_32_bits_are_refused() -> None:
    assert next_ids([2**31 - 2], 1, 0.0) == [2**31 - 1]
    with pytest.raises(ValueError, match="at most 2147483647"):
        next_ids([2**31 - 2], 2, 0.0)
