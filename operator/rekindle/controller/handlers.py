"""What Kopf is used for: the watch of our own kind. It keeps no progress in annotations and adds no finalizer."""

from typing import Any

import kopf

from rekindle.controller.resources import SPARK_APPLICATION
from rekindle.controller.store import ApplicationStore


def registry_for(store: ApplicationStore) -> kopf.OperatorRegistry:
    """Handlers that keep `store` current. A registry of its own: nothing is registered by an import."""
    registry = kopf.OperatorRegistry()
    group, version = SPARK_APPLICATION.api_version.split("/")

    @kopf.on.login(registry=registry)
    def login(**arguments: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)

    @kopf.on.event(group, version, SPARK_APPLICATION.plural, registry=registry)
    async def seen(type: str | None, body: kopf.Body, **_: Any) -> None:
        if type == "DELETED":
            store.remove(dict(body))
        else:
            store.put({**body, "metadata": {**body["metadata"]}})

    return registry


def settings_of() -> kopf.OperatorSettings:
    """Kopf's settings: no peering (a Lease decides), no posting of logs as events, watches that never freeze."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.watching.server_timeout = 240
    settings.watching.client_timeout = 300
    settings.scanning.disabled = True
    settings.process.ultimate_exiting_timeout = None  # it would kill this process minutes after a lost Lease
    return settings
