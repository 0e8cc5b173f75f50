"""All objects of an attempt, in the order in which they are made: a driver never waits for its configuration."""

from dataclasses import dataclass

from rekindle.api.spark_application import SparkApplication
from rekindle.controller.resources import CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, POD, SERVICE, Object, Resource
from rekindle.controller.submission import names as labels
from rekindle.controller.submission.driver_pod import driver_pod
from rekindle.controller.submission.executor_template import executor_template
from rekindle.controller.submission.executor_template import render as render_template
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.properties import EXECUTOR_TEMPLATE, PORTS, PROPERTIES, properties, render
from rekindle.controller.submission.storage import store_claims


@dataclass(frozen=True, slots=True)
class Made:
    """One object to make, of one kind."""

    resource: Resource
    body: Object

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


def attempt_objects(
    application: SparkApplication, names: AttemptNames, namespace: str, owner: Object, token_digest: str | None = None
) -> list[Made]:
    """The ConfigMap, the service, the claims of the store, and last the driver's pod; all owned by the application.

    `token_digest`: of the token with which the operator comes to its job master, if it does.
    """
    claims = store_claims(application.spec, names, owner)
    return [
        Made(CONFIG_MAP, _config_map(application, names, namespace, owner)),
        Made(SERVICE, _service(application, names, owner)),
        *(Made(PERSISTENT_VOLUME_CLAIM, claim) for claim in claims),
        Made(POD, driver_pod(application, names, owner, token_digest)),
    ]


def _config_map(application: SparkApplication, names: AttemptNames, namespace: str, owner: Object) -> Object:
    return {
        "metadata": {"name": names.config_map, "labels": names.labels, "ownerReferences": [owner]},
        "data": {
            PROPERTIES: render(properties(application, names, namespace)),
            EXECUTOR_TEMPLATE: render_template(executor_template(application, names)),
        },
    }


def _service(application: SparkApplication, names: AttemptNames, owner: Object) -> Object:
    """Headless; not labelled `spark-app-selector`, for a driver that stops deletes every service that is."""
    driver = application.spec.driver
    metadata = {
        "name": names.service,
        "labels": {**(driver.service_labels or {}), **names.labels},
        "ownerReferences": [owner],
    }
    if driver.service_annotations:
        metadata["annotations"] = driver.service_annotations
    return {
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            # The driver listens before it is ready by any probe, and its executors must find it then.
            "publishNotReadyAddresses": True,
            "selector": {labels.SPARK_SELECTOR: names.spark_application_id, labels.SPARK_ROLE: "driver"},
            "ports": [{"name": name, "port": port, "targetPort": port} for name, port in PORTS.items()],
        },
    }
