"""What Kopf is used for: the watch of our own kind. It keeps no progress in annotations and adds no finalizer."""

from typing import Any

import kopf

from rekindle.controller.kube import is_in_pod
from rekindle.controller.resources import SPARK_APPLICATION
from rekindle.controller.store import ApplicationStore


def registry_for(store: ApplicationStore) -> kopf.OperatorRegistry:
    """Handlers that keep `store` current. A registry of its own: nothing is registered by an import."""
    registry = kopf.OperatorRegistry()
    group, version = SPARK_APPLICATION.api_version.split("/")

    @kopf.on.login(registry=registry)
    def login(**arguments: Any) -> kopf.ConnectionInfo | None:
        log_in = kopf.login_with_service_account if is_in_pod() else kopf.login_with_kubeconfig
        return log_in(**arguments)

    @kopf.on.event(group, version, SPARK_APPLICATION.plural, registry=registry)
    async def seen(type: str | None, body: kopf.Body, **_: Any) -> None:
        if type == "DELETED":
            store.remove(dict(body))
        else:
            store.put({**body, "metadata": {**body["metadata"]}})

    return registry


class _NoDiffs(kopf.DiffBaseStorage):
    """No state to compare with is made or kept: every change is taken as it comes.

    To copy each object for that is a tenth of what the operator computes.
    """

    def build(self, *, body: kopf.Body, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        pass


def settings_of() -> kopf.OperatorSettings:
    """Kopf's settings: no peering (a Lease decides), no posting of logs as events, watches that never freeze."""
    settings = kopf.OperatorSettings()
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.watching.server_timeout = 240
    settings.watching.client_timeout = 300
    settings.scanning.disabled = True
    settings.process.ultimate_exiting_timeout = None  # it would kill this process minutes after a lost Lease
    return settings
