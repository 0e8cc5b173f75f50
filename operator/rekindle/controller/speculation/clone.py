"""A duplicate of a live executor: its pod once more under another id, which the driver takes in as one of its own.

The copy is made from the pod as it is stored, for nothing else knows all of it: the template, what Spark added, what
admission added. Everything that belongs to the one pod that is there is taken out again: where it was placed, its
token, its addresses, its scratch claims. Containers that an injector put in stay, and so do the annotations by which
injectors know their own work: without them some put their containers in a second time, and the pod is refused.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

from rekindle.controller.affinity import HOSTNAME, requiring
from rekindle.controller.resources import Object, labels_of
from rekindle.controller.submission.names import SPARK_ROLE

LABEL_DUPLICATE = "rekindle.dev/duplicate"
"""`true` on a duplicate and on its claims."""

LABEL_DUPLICATE_OF = "rekindle.dev/duplicate-of"
"""The id of the executor that the driver itself made, also on a duplicate of a duplicate."""

FIRST_ID = 1_000_000
"""A driver counts its own executors from 1."""

_LAST_ID = 2**31 - 1
_IDS_PER_SECOND = 10

EXECUTOR_ID = "spark-exec-id"
"""The label with the id of an executor."""

ID_VARIABLE = "SPARK_EXECUTOR_ID"
"""The variable with it, in the container that the executor runs in."""

_EXEC_INACTIVE, _ID_OPTION = "spark-exec-inactive", "--executor-id"
_LONGEST_HOSTNAME = 63

_PLACED = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")
"""Labels of its node that a pod gets when it is bound."""

_NOT_OURS = ("nodeName", "priority", "preemptionPolicy", "overhead", "ephemeralContainers", "schedulingGates")
"""Fields of a pod's spec that the scheduler and admission fill in, and refuse or act upon when they are sent."""

_TOKEN_VOLUME = "kube-api-access-"
_DEFAULT_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")

_ANNOTATIONS_OF_ONE_POD = (
    "autopilot.gke.io/",
    "cloud.google.com/cluster_autoscaler_unhelpable_",
    "cni.projectcalico.org/containerID",
    "cni.projectcalico.org/podIP",
    "k8s.aliyun.com/pod-ip",
    "k8s.ovn.org/pod-networks",
    "k8s.v1.cni.cncf.io/network-status",
    "k8s.v1.cni.cncf.io/networks-status",
    "kubectl.kubernetes.io/last-applied-configuration",
    "kubernetes.io/config.",
    "kubernetes.io/limit-ranger",
    "kubernetes.io/psp",
    "openshift.io/scc",
    "ovn.kubernetes.io/allocated",
    "ovn.kubernetes.io/cidr",
    "ovn.kubernetes.io/gateway",
    "ovn.kubernetes.io/ip_address",
    "ovn.kubernetes.io/mac_address",
    "ovn.kubernetes.io/routed",
    "vpc.amazonaws.com/pod-",
)
"""What annotations begin with that networks and admission write; what users ask of them is named otherwise."""

_OF_KUBERNETES = re.compile(r"^(?!app\.)([^/]+\.)?(kubernetes|k8s)\.io/")
"""Labels and annotations of a claim that its binder and provisioner write."""

_CLAIM_FIELDS = ("accessModes", "resources", "storageClassName", "volumeAttributesClassName", "volumeMode")


@dataclass(frozen=True, slots=True)
class _Executor:
    """Which executor a pod is: the prefix of its application's executor pods, and its id."""

    prefix: str
    id: int

    @property
    def name(self) -> str:
        return f"{self.prefix}-exec-{self.id}"

    @property
    def hostname(self) -> str:
        """As Spark makes it: the end of a name that is too long, and no sign but a letter or a figure first."""
        return re.sub(r"^\W+", "", self.name[-_LONGEST_HOSTNAME:])


def clone_of(pod: Object, executor_id: int, *, avoid_nodes: Collection[str]) -> Object:
    """A duplicate of a live executor pod as it is sent to the API server: metadata and spec; `pod` stays as it is.

    `avoid_nodes`: values of the nodes' label kubernetes.io/hostname. The claims that `own_claims` names are replaced
    by those that `claims_of` makes. ValueError: `pod` is no executor that a driver made, or the id is not one of
    `next_ids`.
    """
    if not FIRST_ID <= executor_id <= _LAST_ID:
        raise ValueError(f"executor id {executor_id}: a duplicate's is from {FIRST_ID} to {_LAST_ID}")
    original = _executor(pod)
    clone = _Executor(original.prefix, executor_id)
    spec = {name: value for name, value in deepcopy(pod["spec"]).items() if name not in _NOT_OURS}
    spec["hostname"] = clone.hostname
    for container in _containers(spec):
        _rename(container, original, clone)
    _drop_token(spec)
    _drop(spec, "tolerations", _is_default)
    _use_claims(spec, _new_claim_names(pod, clone.name))
    if avoid_nodes:
        away = {"key": HOSTNAME, "operator": "NotIn", "values": sorted(set(avoid_nodes))}
        spec["affinity"] = requiring(spec.get("affinity"), away)
    return {"metadata": _metadata(pod, original, clone), "spec": spec}


def own_claims(pod: Object) -> list[str]:
    """The names of the claims that belong to this executor alone, once each. ValueError: `pod` is no executor.

    Spark makes them for `claimName=OnDemand`, called after an executor; not always after this one, for claims of
    executors that are gone are used again.
    """
    of_one = re.compile(rf"(?:^|-){re.escape(_executor(pod).prefix)}-exec-\d+-pvc-\d+$")
    claims = (volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes") or ())
    names = [str(claim["claimName"]) for claim in claims if claim]
    return [name for name in dict.fromkeys(names) if of_one.search(name)]


def claims_of(pod: Object, clone: Object, claims: Mapping[str, Object]) -> list[Object]:
    """New PersistentVolumeClaims, to be made before `clone`, in place of those of `pod` that are its alone.

    `claims`: by name, at least those that `own_claims` names. Class, size, access and volume mode, labels and owners
    are the same; the volume is another. ValueError: one is not in `claims`.
    """
    names = _new_claim_names(pod, clone["metadata"]["name"])
    if missing := sorted(set(names) - set(claims)):
        raise ValueError(f"pod {pod['metadata']['name']}: its claims {', '.join(missing)} are not there")
    return [_new_claim(claims[old], new, clone) for old, new in names.items()]


def next_ids(existing: Iterable[int], count: int, seconds_since_driver_began: float) -> list[int]:
    """`count` executor ids in rising order, above all `existing` ones and above those given out before.

    A driver tells its executors apart by their ids alone for as long as it lives, and refuses those of pods that it
    deleted itself. So ids follow its age, ten to a second: nothing need be remembered while fewer are asked for.
    ValueError: they do not fit in 32 bits, which is so after six years.
    """
    of_age = FIRST_ID + int(_IDS_PER_SECOND * max(0.0, seconds_since_driver_began))
    first = max([of_age, *(one + 1 for one in existing)])
    if first + count - 1 > _LAST_ID:
        raise ValueError(f"no {count} executor ids from {first}: Spark's are at most {_LAST_ID}")
    return list(range(first, first + count))


def _executor(pod: Object) -> _Executor:
    """Which executor `pod` is, by its labels and its name."""
    name, labels = str(pod["metadata"]["name"]), labels_of(pod)
    if labels.get(SPARK_ROLE) != "executor":
        raise ValueError(f"pod {name} is no executor: its label {SPARK_ROLE} is {labels.get(SPARK_ROLE)!r}")
    number = str(labels.get(EXECUTOR_ID, ""))
    if re.fullmatch(r"[0-9]+", number) is None:
        raise ValueError(f"pod {name} is no executor with a number: its label {EXECUTOR_ID} is {number!r}")
    prefix = name.removesuffix(f"-exec-{number}")
    if prefix == name:
        raise ValueError(f"pod {name} is not called as a driver calls an executor: it does not end in -exec-{number}")
    return _Executor(prefix, int(number))


def _metadata(pod: Object, original: _Executor, clone: _Executor) -> Object:
    """Only what is named here is kept: the rest is the API server's, or a finalizer that knows one pod."""
    metadata, labels = pod["metadata"], labels_of(pod)
    kept: Object = {"name": clone.name, "namespace": metadata["namespace"]}
    kept["labels"] = {
        **{key: value for key, value in labels.items() if key not in (_EXEC_INACTIVE, *_PLACED)},
        EXECUTOR_ID: str(clone.id),
        LABEL_DUPLICATE: "true",
        LABEL_DUPLICATE_OF: labels.get(LABEL_DUPLICATE_OF, str(original.id)),
    }
    annotations = metadata.get("annotations") or {}
    kept["annotations"] = {k: v for k, v in annotations.items() if not k.startswith(_ANNOTATIONS_OF_ONE_POD)}
    kept["ownerReferences"] = deepcopy(metadata.get("ownerReferences") or [])
    return {name: value for name, value in kept.items() if value}


def _containers(spec: Object) -> list[Object]:
    return [*(spec.get("initContainers") or ()), *spec["containers"]]


def _rename(container: Object, original: _Executor, clone: _Executor) -> None:
    """The id and the pod's name, where they stand in words; most of Spark's own variables refer to fields."""
    named = re.compile(rf"(?<![\w-]){re.escape(original.name)}(?!\d)")
    for variable in container.get("env") or ():
        if variable["name"] == ID_VARIABLE and variable.get("value") == str(original.id):
            variable["value"] = str(clone.id)
        elif "value" in variable:
            variable["value"] = named.sub(clone.name, variable["value"])
    for part in ("command", "args"):
        if words := container.get(part):
            with_id = [_with_id(pair, original.id, clone.id) for pair in pairwise(["", *words])]
            container[part] = [named.sub(clone.name, word) for word in with_id]


def _with_id(pair: tuple[str, str], old: int, new: int) -> str:
    """The second of two words of a command, with the new id if it is the value of the option that gives the old one."""
    before, word = pair
    if (before, word) == (_ID_OPTION, str(old)):
        return str(new)
    return f"{_ID_OPTION}={new}" if word == f"{_ID_OPTION}={old}" else word


def _drop_token(spec: Object) -> None:
    """The volume of the service account's token, and where it is mounted; admission puts in another."""
    volumes = spec.get("volumes") or ()
    tokens = {one["name"] for one in volumes if one["name"].startswith(_TOKEN_VOLUME) and "projected" in one}
    _drop(spec, "volumes", lambda volume: volume["name"] in tokens)
    for container in _containers(spec):
        _drop(container, "volumeMounts", lambda mount: mount["name"] in tokens)


def _drop(target: Object, part: str, unwanted: Callable[[Object], bool]) -> None:
    if part in target:
        target[part] = [one for one in target[part] if not unwanted(one)]


def _is_default(toleration: Object) -> bool:
    """Whether DefaultTolerationSeconds made it, or would make the same."""
    default = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    return any(toleration == {"key": key, **default} for key in _DEFAULT_TOLERATED)


def _new_claim_names(pod: Object, clone: str) -> dict[str, str]:
    """Old name to new; numbered anew, for two that were used again may have had the same number."""
    return {old: f"{clone}-pvc-{number}" for number, old in enumerate(own_claims(pod))}


def _use_claims(spec: Object, names: Mapping[str, str]) -> None:
    for volume in spec.get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            claim["claimName"] = names.get(claim["claimName"], claim["claimName"])


def _new_claim(claim: Object, name: str, clone: Object) -> Object:
    metadata, duplicate = claim["metadata"], (LABEL_DUPLICATE, LABEL_DUPLICATE_OF)
    kept: Object = {"name": name, "namespace": metadata["namespace"]}
    for part in ("labels", "annotations"):
        kept[part] = {k: v for k, v in (metadata.get(part) or {}).items() if not _OF_KUBERNETES.match(k)}
    kept["labels"] |= {label: labels_of(clone)[label] for label in duplicate}
    kept["ownerReferences"] = deepcopy(metadata.get("ownerReferences") or [])
    spec = {field: deepcopy(claim["spec"][field]) for field in _CLAIM_FIELDS if field in claim["spec"]}
    return {"metadata": {part: value for part, value in kept.items() if value}, "spec": spec}
