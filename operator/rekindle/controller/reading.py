"""From what is stored to what a decision is made of: the spec strictly, the status leniently."""

import hashlib
import json
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from rekindle.api.application_status import ApplicationStatus
from rekindle.api.model import problems
from rekindle.api.settings import CONF_PREFIX, RekindleSettings, SettingsError
from rekindle.api.spark_application import SparkApplication
from rekindle.api.unsupported import refusals
from rekindle.controller.resources import Object, uid_of
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.objects import attempt_objects
from rekindle.controller.submission.properties import OWNED

_NOT_OF_AN_ATTEMPT = ("suspend", "timeToLiveSeconds", "restartPolicy", "timeouts")
"""Fields whose edit leaves a running attempt alone."""

_MOST_KNOWN = 512


_TYPED = {
    "spark.kubernetes.authenticate.driver.serviceAccountName": "spec.driver.serviceAccount",
    "spark.kubernetes.driverEnv.": "spec.driver.env",
    "spark.kubernetes.driver.label.": "spec.driver.labels",
    "spark.kubernetes.driver.annotation.": "spec.driver.annotations",
    "spark.kubernetes.driver.secrets.": "spec.driver.secrets",
    "spark.kubernetes.driver.secretKeyRef.": "spec.driver.env",
    "spark.kubernetes.driver.volumes.": "spec.volumes and spec.driver.volumeMounts",
    "spark.kubernetes.driver.node.selector.": "spec.driver.nodeSelector",
    "spark.kubernetes.node.selector.": "spec.nodeSelector",
    "spark.kubernetes.driver.scheduler.name": "spec.driver.schedulerName",
    "spark.kubernetes.scheduler.name": "spec.driver.schedulerName and spec.executor.schedulerName",
    "spark.kubernetes.container.image.pullPolicy": "spec.imagePullPolicy",
    "spark.kubernetes.container.image.pullSecrets": "spec.imagePullSecrets",
    "spark.ui.port": "nothing: the driver's service has port 4040",
}
"""Keys by which spark-submit would shape the driver's pod, and the fields that do so here."""


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """A spec: as a model with the settings of its blocks, or why it is none."""

    application: SparkApplication | None
    problems: tuple[str, ...]
    digest: str
    settings: RekindleSettings | None = None


def read_spec(body: Object) -> ReadSpec:
    """The spec of a stored application. Whatever is wrong with it comes back in words."""
    try:
        return _read_spec(body, spec_digest(body.get("spec") or {}))
    except RecursionError:
        return ReadSpec(None, ("spec: it is nested too deeply to be read; flatten it",), "")


def _read_spec(body: Object, digest: str) -> ReadSpec:
    document = {name: body.get(name) for name in ("apiVersion", "kind", "metadata", "spec")}
    try:
        application = SparkApplication.model_validate(document, by_alias=True, by_name=False)
        settings = application.spec.settings()
    except ValidationError as error:
        return ReadSpec(None, tuple(str(problem) for problem in problems(error, SparkApplication)), digest)
    except SettingsError as error:
        return ReadSpec(None, tuple(f"spec.sparkConf: {line}" for line in str(error).splitlines()), digest)
    wrong = [*(str(problem) for problem in refusals(application)), *_conflicts(application)]
    wrong = wrong or _not_made(application)
    return ReadSpec(None, tuple(wrong), digest) if wrong else ReadSpec(application, (), digest, settings)


class SpecReader:
    """Reads a spec once for each edit: every change of a pod is a look, and few of them follow an edit."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], ReadSpec] = OrderedDict()

    def read(self, body: Object) -> ReadSpec:
        """As `read_spec`."""
        try:
            key = (uid_of(body), spec_digest({"whole": body.get("spec")}))  # a deletion, too, makes a new generation
        except RecursionError:
            return read_spec(body)
        if (known := self._known.get(key)) is None:
            known = self._known[key] = read_spec(body)
        self._known.move_to_end(key)
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return known


def state_of(body: Object) -> str:
    """The state as it is stored, whatever else is; NEW where there is none yet."""
    return str((body.get("status") or {}).get("applicationState", {}).get("state") or "NEW")


def read_status(body: Object) -> ApplicationStatus:
    """The stored status; one that cannot be read counts as none, and the objects of the attempts tell the rest."""
    return parse_status(body)[0]


def parse_status(body: Object) -> tuple[ApplicationStatus, str]:
    """The stored status, and why it cannot be read: then it counts as none."""
    try:
        return ApplicationStatus.model_validate(body.get("status") or {}, strict=False, by_alias=True), ""
    except ValidationError as error:
        return ApplicationStatus(), "; ".join(f"status.{one}" for one in problems(error, ApplicationStatus)[:3])


def spec_digest(spec: dict[str, Any]) -> str:
    """Digest of what an attempt depends on."""
    kept = {name: value for name, value in spec.items() if name not in _NOT_OF_AN_ATTEMPT}
    recovery = kept.get("recovery")
    if isinstance(recovery, dict) and isinstance(recovery.get("storage"), dict):
        storage = {name: value for name, value in recovery["storage"].items() if name != "whenCompleted"}
        kept["recovery"] = {**recovery, "storage": storage}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def _not_made(application: SparkApplication) -> list[str]:
    """Why no pods can be made of it: a template or a number that no schema checks."""
    names = AttemptNames(application.metadata.name, "0" * 36, 1)
    try:
        attempt_objects(application, names, application.metadata.namespace, {})
    except (ValueError, TypeError, AttributeError, KeyError, ArithmeticError) as error:
        return [f"spec: no pods can be made of it: {error or type(error).__name__}; look at template and sparkConf"]
    return []


def _conflicts(application: SparkApplication) -> list[str]:
    """What the API server's schema cannot say: sparkConf against what the operator sets, and no image at all."""
    spec = application.spec
    found = [
        f"spec.sparkConf.{key}: the operator sets this for every driver it makes; remove it"
        for key in sorted(spec.spark_conf)
        if key in OWNED
    ]
    found += [
        f"spec.sparkConf.{key}: the operator writes the driver's pod, not spark-submit; write {field}"
        for key in sorted(spec.spark_conf)
        for prefix, field in _TYPED.items()
        if key == prefix or (prefix.endswith(".") and key.startswith(prefix))
    ]
    of_store = ("store", "volumes") if spec.recovery.storage is not None else ()
    for name in (*of_store, "fencing", "fencingTimeoutSeconds"):
        if (key := f"{CONF_PREFIX}recovery.{name}") in spec.spark_conf:
            better = "spec.recovery.storage is the store" if name == "store" else f"write spec.recovery.{name}"
            found.append(f"spec.sparkConf.{key}: it shapes pods, or decides about them; {better}")
    image = spec.image or spec.spark_conf.get("spark.kubernetes.container.image")
    for role, own in (("driver", spec.driver.image), ("executor", spec.executor.image)):
        if not (own or image or spec.spark_conf.get(f"spark.kubernetes.{role}.container.image")):
            found.append(f"spec.image: required, unless spec.{role}.image is set; there is no default image")
    return list(dict.fromkeys(found))
