"""The volumes of an application's stored results: the claims that are made for it, and how its pods mount them.

The claims are the application's, not a driver's, and carry no label of Spark's: a driver that stops deletes what is its
own or labelled so.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rekindle.api.settings import CONF_PREFIX, DRIVER_TAKEOVER
from rekindle.api.spark_application import SparkApplication, SparkApplicationSpec
from rekindle.api.storage import volume_folder
from rekindle.controller.resources import Object
from rekindle.controller.submission.names import AttemptNames

STORE, CHANGED_STAGES = f"{CONF_PREFIX}recovery.store", f"{CONF_PREFIX}recovery.changedStages"
MOUNT_PATH = "/rekindle/store"
_NAME = "rekindle-store"


@dataclass(frozen=True, slots=True)
class StoreVolume:
    """One volume of the store: its name in a pod, the claim that it is, and where it is mounted.

    Results are spread over those that have a number, if any has; the other has the journal.
    """

    name: str
    claim: str
    path: str
    number: int | None = None


def store_volumes(spec: SparkApplicationSpec, names: AttemptNames) -> list[StoreVolume]:
    """The first has journal and manifests, and all results where there is no other."""
    recovery = spec.recovery
    if recovery.storage is None:
        return []
    if recovery.storage.claim_name is not None:
        return [StoreVolume(_NAME, recovery.storage.claim_name, MOUNT_PATH)]
    spread = range(recovery.volumes if recovery.volumes > 1 else 0)
    return [
        StoreVolume(_NAME, names.store_claim(), MOUNT_PATH),
        *(
            StoreVolume(f"{_NAME}-{one}", names.store_claim(one), f"{MOUNT_PATH}/{volume_folder(one)}", one)
            for one in spread
        ),
    ]


def store_claims(spec: SparkApplicationSpec, names: AttemptNames, owner: Object) -> list[Object]:
    """The claims that all attempts of the application share; none where it has one already, or wants none."""
    storage = spec.recovery.storage
    if storage is None or storage.claim_template is None:
        return []
    wanted = storage.claim_template.model_dump(by_alias=True, exclude_none=True)
    shared = {"labels": names.application_labels, "ownerReferences": [owner]}
    return [{"metadata": {"name": one.claim, **shared}, "spec": wanted} for one in store_volumes(spec, names)]


def claim_names(spec: SparkApplicationSpec, names: AttemptNames) -> list[str]:
    """The claims that its pods mount, whoever made them."""
    return [one.claim for one in store_volumes(spec, names)]


def why_unbound(name: str, claim: Object | None) -> str | None:
    """Why no pod can mount that claim yet; None where pods can."""
    if claim is None:
        return f"claim {name} is not there (spec.recovery.storage)"
    phase, spec = (claim.get("status") or {}).get("phase") or "Pending", claim["spec"]
    if phase == "Bound":
        return None
    asked = (
        f"class {spec['storageClassName']}" if spec.get("storageClassName") else "no class",
        "/".join(spec.get("accessModes") or ()),
        ((spec.get("resources") or {}).get("requests") or {}).get("storage", ""),
    )
    told = f"`kubectl describe pvc {name}` tells why"
    return f"claim {name} ({', '.join(asked)}) of spec.recovery.storage is {phase}; {told}"


def where_it_is_offered(claim: Object, others: Iterable[Object]) -> str:
    """Which classes have volumes that may be mounted as a claim asks for, as other claims of its namespace show.

    No class says so itself.
    """
    wanted = set(claim["spec"].get("accessModes") or ())
    modes = "/".join(sorted(wanted))
    bound = [one for one in others if (one.get("status") or {}).get("phase") == "Bound"]
    offering = {
        str(one["spec"]["storageClassName"])
        for one in bound
        if one["spec"].get("storageClassName") and wanted <= set(one["status"].get("accessModes") or ())
    }
    if offering:
        return f"volumes with {modes} are in use here of class {', '.join(sorted(offering))}"
    advice = ""
    if "ReadWriteMany" in wanted:
        advice = ": classes whose volumes are on a network offer it (as NFS and CephFS), and where all pods are on one "
        advice += "node, claimTemplate.accessModes may be [ReadWriteOnce]"
    return f"no claim of this namespace has a volume with {modes}{advice}"


def mount_store(pod: Object, container: Object, spec: SparkApplicationSpec, names: AttemptNames) -> None:
    """Have a pod of the application mount it, if it has one."""
    if volumes := store_volumes(spec, names):
        mine = [{"name": one.name, "persistentVolumeClaim": {"claimName": one.claim}} for one in volumes]
        pod["spec"]["volumes"] = [*(pod["spec"].get("volumes") or ()), *mine]
        mounts = [{"name": one.name, "mountPath": one.path} for one in volumes]
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounts]


def store_properties(application: SparkApplication, names: AttemptNames) -> Mapping[str, str]:
    """Where the job master finds it.

    A claim of its own nobody else's driver knows, and that of the attempt before is proven gone where nobody is taken
    for dead: then a driver need not wait for the lease of the last one.
    """
    recovery = application.spec.recovery
    if recovery.storage is None:
        return {}
    said = application.spec.settings().recovery.changed_stages  # also in sparkConf
    changed = {} if said else {CHANGED_STAGES: "rerun"}  # who edits a spec means it
    if recovery.storage.claim_name is not None:
        return {STORE: f"{MOUNT_PATH}/{application.metadata.name}", **changed}
    takes_over = names.attempt > 1 and recovery.fencing == "Wait"
    return {STORE: MOUNT_PATH, **changed, **({DRIVER_TAKEOVER: "true"} if takes_over else {})}
