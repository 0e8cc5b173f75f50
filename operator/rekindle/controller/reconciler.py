"""One look at an application: gather the facts, decide, write the status, take the steps.

The order makes every interruption harmless. What an ended driver leaves is removed before the status that says so, and
a living one is told to end after it; a submission comes after the status that says which attempt it is. Each step can
be taken twice.
"""

import asyncio
import logging
from dataclasses import replace

from rekindle.api.application_status import ApplicationStatus
from rekindle.controller.children import Children, DigestOf
from rekindle.controller.decision import (
    CleanUp,
    Decision,
    DeleteApplication,
    DeleteDriver,
    DropStore,
    ForgetDrivers,
    ReleaseFinalizer,
    Said,
    Step,
    Submit,
    View,
)
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.informer import Informer, Union
from rekindle.controller.kube import Gone, Kube, Refused
from rekindle.controller.lifecycle import decide
from rekindle.controller.logs import looked_at
from rekindle.controller.metrics import Metrics
from rekindle.controller.observer import JobOf, Observer, SpeculationOf
from rekindle.controller.resources import SPARK_APPLICATION, Key, Object, uid_of
from rekindle.controller.status import as_patch
from rekindle.controller.store import ApplicationStore

log = logging.getLogger(__name__)

FINALIZER = "rekindle.dev/driver"


class Reconciler:
    """Looks at applications. Holds no state of its own: all of it is in the API."""

    def __init__(
        self,
        kube: Kube,
        store: ApplicationStore,
        pods: Union,
        claims: Union,
        nodes: Informer | None,
        events: EventRecorder,
        metrics: Metrics,
        speculation: SpeculationOf = lambda key: None,
        digest_of: DigestOf = lambda uid, driver_pod: None,
        job_of: JobOf = lambda key, driver, newest: None,
    ) -> None:
        self._kube, self._store, self._events, self._metrics = kube, store, events, metrics
        self._observer = Observer(kube, pods, claims, nodes, speculation, job_of)
        self._children = Children(kube, self._observer, events, metrics, digest_of)

    async def look(self, key: Key) -> float | None:
        """Bring the application one step on; seconds until it wants to be looked at again, None for no time."""
        body = self._store.get(key)
        if body is None:
            return None
        looked_at.set((str(key), uid_of(body)))
        try:
            return await self._look_at(body)
        except Refused as error:  # it will be refused again: a person has to know
            self._events.record(
                body, Said("Warning", "OperatorRefused", f"the API server refused the operator: {error}")
            )
            raise

    async def _look_at(self, body: Object) -> float | None:
        if "deletionTimestamp" not in body["metadata"] and FINALIZER not in body["metadata"].get("finalizers", ()):
            await self._hold(body)
            return 0.0
        view = await self._observer.view(body)
        # What the loss of a driver costs a large job takes seconds to work out, in which others are looked at.
        decision = await asyncio.to_thread(decide, view) if view.status.recovery.job else decide(view)
        return await self._apply(body, view, decision)

    async def _hold(self, body: Object) -> None:
        """Put our finalizer on it before anything is made for it."""
        finalizers = [*(body["metadata"].get("finalizers") or ()), FINALIZER]
        await self._patch(body, {"metadata": {"finalizers": finalizers}})

    async def _release(self, body: Object) -> None:
        """Take our finalizer off."""
        finalizers = body["metadata"].get("finalizers") or ()
        left = [name for name in finalizers if name != FINALIZER]
        if len(left) != len(finalizers):
            await self._patch(body, {"metadata": {"finalizers": left}})

    async def _apply(self, body: Object, view: View, decision: Decision) -> float | None:
        clean_ups = [step for step in decision.steps if isinstance(step, CleanUp)]
        is_over = view.driver is None or view.driver.proven_gone
        if is_over:  # else the driver is told to end first: it may live on if the write below is refused
            await self._children.clean_up(view, clean_ups)
        body = await self._write(body, decision.status)
        self._tell(body, view.status, decision)
        for step in decision.steps:
            if isinstance(step, Submit):
                refusal = await self._children.submit(body, view, decision.status)
                if refusal is not None:
                    refused = replace(view, status=decision.status, driver=None, submission_error=refusal)
                    return await self._apply(body, refused, decide(refused))
            else:
                await self._take(body, view, step)
        if not is_over:
            await self._children.clean_up(view, clean_ups)
        return decision.delay

    async def _take(self, body: Object, view: View, step: Step) -> None:
        if isinstance(step, DeleteDriver):
            await self._children.delete_driver(view, step)
        elif isinstance(step, ForgetDrivers):
            await self._children.forget_drivers(view, step)
        elif isinstance(step, DropStore):
            await self._children.drop_store(view, step)
        elif isinstance(step, ReleaseFinalizer):
            await self._release(body)
        elif isinstance(step, DeleteApplication):
            version = body["metadata"]["resourceVersion"]  # one that is edited meanwhile is to run again
            await self._kube.delete(SPARK_APPLICATION, view.namespace, view.name, uid=view.uid, version=version)

    def _tell(self, body: Object, before: ApplicationStatus, decision: Decision) -> None:
        after = decision.status
        if len(after.transitions) and after.transitions[-1:] != before.transitions[-1:]:
            entered = after.transitions[-1]
            state = entered.state.value
            self._metrics.transitions.labels(body["metadata"]["namespace"], state, entered.reason).inc()
            log.info("attempt %d: %s, %s: %s", entered.attempt, state, entered.reason, entered.message)
        self._metrics.count_recovery(body["metadata"]["namespace"], before.recovery.last, after.recovery.last)
        for said in decision.events:
            self._events.record(body, said)
            if said.type == "Warning":
                log.warning("%s: %s", said.reason, said.message)

    async def _write(self, body: Object, status: ApplicationStatus) -> Object:
        """Store the status if it changed. Raises Taken where the application has changed meanwhile."""
        patch = as_patch(body.get("status"), status)
        return body if patch is None else await self._patch(body, {"status": patch}, subresource="status")

    async def _patch(self, body: Object, patch: Object, subresource: str | None = None) -> Object:
        metadata = body["metadata"]
        versioned = {**patch, "metadata": {"resourceVersion": metadata["resourceVersion"], **patch.get("metadata", {})}}
        try:
            stored = await self._kube.patch(
                SPARK_APPLICATION, metadata["namespace"], metadata["name"], versioned, subresource=subresource
            )
        except Gone:  # and its watch has not told, or never will
            self._store.remove(body)
            raise
        self._store.put(stored)
        return stored
