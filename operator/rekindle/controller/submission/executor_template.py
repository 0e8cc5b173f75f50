"""The template from which Spark's driver makes every executor pod, those that replace lost ones too."""

import json

from rekindle.api.spark_application import SparkApplication
from rekindle.controller.resources import Object
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.pod_fields import (
    add_container_fields,
    add_metadata,
    add_pod_fields,
    avoid_blocked_nodes,
    from_template,
)
from rekindle.controller.submission.properties import EXECUTOR_CONTAINER
from rekindle.controller.submission.storage import mount_store

NODE_ATTRIBUTE = "SPARK_EXECUTOR_ATTRIBUTE_NODE"


def executor_template(application: SparkApplication, names: AttemptNames) -> Object:
    """A pod with everything that Spark does not set itself: it fills in image, command, resources and its labels."""
    spec = application.spec
    pod, container = from_template(spec.executor.template, EXECUTOR_CONTAINER)
    add_metadata(pod, {**(spec.executor.labels or {}), **names.labels}, spec.executor.annotations)
    add_pod_fields(pod, spec, spec.executor)
    avoid_blocked_nodes(pod)
    add_container_fields(container, spec.executor.model_copy(update={"env_vars": {}}))
    mount_store(pod, container, spec, names)
    # Spark's REST then tells on which node an executor runs; its "host" is the pod's address.
    node = {"name": NODE_ATTRIBUTE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    container["env"] = [*container.get("env", ()), node]
    return {"apiVersion": "v1", "kind": "Pod", **pod}


def render(template: Object) -> str:
    """The template as JSON, which is YAML: an order of magnitude faster to write."""
    return json.dumps(template, sort_keys=True, indent=1)
