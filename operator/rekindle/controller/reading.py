"""From what is stored to what a decision is made of: the spec read once for each generation, the status leniently."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from rekindle.api.application_status import ApplicationStatus
from rekindle.api.model import problems
from rekindle.api.settings import SettingsError
from rekindle.api.spark_application import SparkApplication
from rekindle.api.unsupported import refusals
from rekindle.controller.resources import Object
from rekindle.controller.submission.properties import OWNED

_NOT_OF_AN_ATTEMPT = ("suspend", "timeToLiveSeconds", "restartPolicy", "timeouts")
"""Fields whose edit leaves a running attempt alone."""


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """A spec: as a model, or why it is none."""

    application: SparkApplication | None
    problems: tuple[str, ...]
    digest: str


def read_spec(body: Object) -> ReadSpec:
    """The spec of a stored application. Whatever is wrong with it comes back in words."""
    digest = spec_digest(body.get("spec") or {})
    document = {name: body.get(name) for name in ("apiVersion", "kind", "metadata", "spec")}
    try:
        application = SparkApplication.model_validate(document, by_alias=True, by_name=False)
        application.spec.settings()
    except ValidationError as error:
        return ReadSpec(None, tuple(str(problem) for problem in problems(error, SparkApplication)), digest)
    except SettingsError as error:
        return ReadSpec(None, tuple(f"spec.sparkConf: {line}" for line in str(error).splitlines()), digest)
    wrong = [*(str(problem) for problem in refusals(application)), *_conflicts(application)]
    return ReadSpec(None if wrong else application, tuple(wrong), digest)


def read_status(body: Object) -> ApplicationStatus:
    """The stored status; one that cannot be read counts as none, and the objects of the attempts tell the rest."""
    try:
        return ApplicationStatus.model_validate(body.get("status") or {}, strict=False, by_alias=True)
    except ValidationError:
        return ApplicationStatus()


def spec_digest(spec: dict[str, Any]) -> str:
    """Digest of what an attempt depends on."""
    kept = {name: value for name, value in spec.items() if name not in _NOT_OF_AN_ATTEMPT}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


def _conflicts(application: SparkApplication) -> list[str]:
    """What the API server's schema cannot say: sparkConf against what the operator sets, and no image at all."""
    spec = application.spec
    found = [
        f"spec.sparkConf.{key}: the operator sets this for every driver it makes; remove it"
        for key in sorted(spec.spark_conf)
        if key in OWNED
    ]
    image = spec.image or spec.spark_conf.get("spark.kubernetes.container.image")
    for role, own in (("driver", spec.driver.image), ("executor", spec.executor.image)):
        if not (own or image or spec.spark_conf.get(f"spark.kubernetes.{role}.container.image")):
            found.append(f"spec.image: required, unless spec.{role}.image is set; there is no default image")
    return list(dict.fromkeys(found))
