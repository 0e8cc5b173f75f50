"""The objects that are made for an application: made where they are not there, and deleted."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from rekindle.api.application_status import ApplicationStatus
from rekindle.controller.decision import CleanUp, DeleteDriver, DropStore, ForgetDrivers, Said, View
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.kube import Kube, KubeError, Refused, Taken, Unavailable
from rekindle.controller.metrics import Metrics
from rekindle.controller.observer import Observer, attempt_of
from rekindle.controller.recovery.volume_facts import is_going, what_is_wrong
from rekindle.controller.resources import (
    CONFIG_MAP,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    SERVICE,
    SPARK_APPLICATION,
    Object,
    Resource,
    is_owned_by,
    owner_reference,
    uid_of,
)
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.objects import Made, attempt_objects

log = logging.getLogger(__name__)

_DELETIONS_AT_ONCE = 10
_DELETION_PAUSES = (0.5, 2.0, 0.0)  # after each try; the status waits for it
_CLEAN_UP_SECONDS = 30.0  # for all of it, however many: a look has two minutes, and others wait for its worker


DigestOf = Callable[[str, str], str | None]
"""Of the token with which the operator comes to the driver: (uid of the application, the driver's pod)."""


class Children:
    """Makes and deletes them. Whatever it does can be done twice."""

    def __init__(
        self, kube: Kube, observer: Observer, events: EventRecorder, metrics: Metrics, digest_of: DigestOf
    ) -> None:
        self._kube, self._observer, self._events, self._metrics = kube, observer, events, metrics
        self._digest_of = digest_of

    async def submit(self, body: Object, view: View, status: ApplicationStatus) -> str | None:
        """Make what of the attempt is not there; what the API server refused, in words."""
        assert view.application is not None
        owner = owner_reference(body, SPARK_APPLICATION)
        names = AttemptNames(view.name, view.uid, status.attempt, status.attempt_word)
        began = time.monotonic()
        digest = self._digest_of(view.uid, names.driver_pod)
        for made in attempt_objects(view.application, names, view.namespace, owner, digest):
            try:
                await self._create(view, made, status.attempt)
            except Unavailable as error:
                said = f"{made.resource.kind} {made.name} cannot be made at present: {error}"
                self._events.record(body, Said("Warning", "SubmissionDelayed", said))
                raise
            except (Refused, Taken) as error:
                self._metrics.submissions.labels("refused").inc()
                return f"{made.resource.kind} {made.name} was refused: {error}"
        self._metrics.submissions.labels("made").inc()
        self._metrics.submission_seconds.observe(time.monotonic() - began)
        return None

    async def _create(self, view: View, made: Made, attempt: int) -> None:
        """Get or create. Raises Refused, Taken where the name is somebody else's, Unavailable where it may work soon.

        A full quota refuses also what is there already, and a quota that changed meanwhile answers 409.
        """
        try:
            await self._kube.create(made.resource, view.namespace, made.body)
        except (Taken, Refused) as error:
            there = await self._kube.find(made.resource, view.namespace, made.name)
            if there is None and isinstance(error, Taken):
                raise Unavailable(error.status, str(error)) from None
            if there is None or not is_owned_by(there, view.uid):
                raise
            if made.resource is PERSISTENT_VOLUME_CLAIM:
                await self._replace_lost(view, there, attempt)
            if "data" in made.body and there.get("data") != made.body["data"]:  # by another version, or another hand
                await self._kube.delete(made.resource, view.namespace, made.name, uid=uid_of(there))
                raise Unavailable(409, f"{made.resource.kind} {made.name} has other data: it is made anew") from None

    async def _replace_lost(self, view: View, claim: Object, attempt: int) -> None:
        """Have a claim of the store that is lost, or on its way out, made anew. Raises Unavailable until it can be: it
        goes when nothing mounts it any more, and to Kubernetes also an ended driver does."""
        name, why = claim["metadata"]["name"], what_is_wrong(claim)
        if why is None:
            return
        await self._forget(view.namespace, view.uid, attempt - 1)
        if not is_going(claim):
            await self._kube.delete(PERSISTENT_VOLUME_CLAIM, view.namespace, name, uid=uid_of(claim))
        raise Unavailable(409, f"claim {name} {why}: it is made anew when no pod mounts it any more")

    async def delete_driver(self, view: View, step: DeleteDriver) -> None:
        grace = 0 if step.at_once else None
        await self._kube.delete(POD, view.namespace, step.pod_name, uid=step.pod_uid, grace=grace)

    async def drop_store(self, view: View, step: DropStore) -> None:
        """Each claim goes when nothing mounts it any more."""
        for name in step.claims:
            claim = await self._kube.find(PERSISTENT_VOLUME_CLAIM, view.namespace, name)
            if claim is not None and is_owned_by(claim, view.uid) and not is_going(claim):
                await self._kube.delete(PERSISTENT_VOLUME_CLAIM, view.namespace, name, uid=uid_of(claim))

    async def forget_drivers(self, view: View, step: ForgetDrivers) -> None:
        await self._forget(view.namespace, view.uid, step.attempt)

    async def _forget(self, namespace: str, uid: str, attempt: int) -> None:
        for pod in self._observer.drivers(namespace, uid):
            if attempt_of(pod) <= attempt and "deletionTimestamp" not in pod["metadata"]:
                await self._kube.delete(POD, namespace, pod["metadata"]["name"], uid=uid_of(pod))

    async def clean_up(self, view: View, steps: Sequence[CleanUp]) -> None:
        """What cannot be deleted in time is owned, and goes with the driver's pod or the application."""
        try:
            async with asyncio.timeout(_CLEAN_UP_SECONDS) as timeout:
                await self._delete_left(view, steps)
        except TimeoutError:
            if not timeout.expired():
                raise
            log.warning("what ended drivers left could not be deleted within %g s", _CLEAN_UP_SECONDS)

    async def _delete_left(self, view: View, steps: Sequence[CleanUp]) -> None:
        at_once = asyncio.Semaphore(_DELETIONS_AT_ONCE)

        async def delete(resource: Resource, body: Object) -> None:
            name = body["metadata"]["name"]
            for pause in _DELETION_PAUSES:
                try:
                    async with at_once:
                        await self._kube.delete(resource, view.namespace, name, uid=uid_of(body))
                    return
                except KubeError as error:
                    log.warning("%s %s could not be deleted: %s", resource.kind, name, error)
                await asyncio.sleep(pause)

        for step in steps:
            names = view.names(step.attempt)
            pods = [pod for pod in self._observer.executors(view, view.driver) if not _stays(view, pod)]
            await asyncio.gather(*(delete(POD, pod) for pod in pods))
            for resource, name in ((SERVICE, names.service), (CONFIG_MAP, names.config_map)):
                there = await self._kube.find(resource, view.namespace, name)
                if there is not None and is_owned_by(there, view.uid):
                    await delete(resource, there)


def _stays(view: View, executor: Object) -> bool:
    """An executor that goes already, or that has ended and is to be kept for who wants to know why."""
    if "deletionTimestamp" in executor["metadata"]:
        return True
    has_ended = (executor.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return has_ended and view.application is not None and not view.application.spec.deletes_executors
