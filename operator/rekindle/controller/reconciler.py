"""One look at an application: gather the facts, decide, write the status, take the steps.

The order makes every interruption harmless. What an ended driver leaves is removed before the status that says so, and
a living one is told to end after it; a submission comes after the status that says which attempt it is. Each step can
be taken twice.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from secrets import token_hex

from rekindle.api.application_status import ApplicationState, ApplicationStatus
from rekindle.controller.clock import parse_time
from rekindle.controller.decision import (
    CleanUp,
    Decision,
    DeleteApplication,
    DeleteDriver,
    ForgetDrivers,
    ReleaseFinalizer,
    Said,
    Step,
    Submit,
    View,
)
from rekindle.controller.driver_facts import DriverFacts, DriverPhase, driver_facts, is_well, vanished
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.executor_facts import executor_facts
from rekindle.controller.informer import Informer, Union
from rekindle.controller.kube import Gone, Kube, KubeError, Refused, Taken, Unavailable
from rekindle.controller.lifecycle import decide
from rekindle.controller.logs import looked_at
from rekindle.controller.metrics import Metrics
from rekindle.controller.reading import SpecReader, parse_status
from rekindle.controller.resources import (
    CONFIG_MAP,
    NODE,
    POD,
    SERVICE,
    SPARK_APPLICATION,
    Key,
    Object,
    Resource,
    is_owned_by,
    labels_of,
    owner_reference,
    uid_of,
)
from rekindle.controller.status import as_patch
from rekindle.controller.store import ApplicationStore
from rekindle.controller.submission import names as labels
from rekindle.controller.submission.driver_pod import CONTAINER
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.objects import Made, attempt_objects
from rekindle.controller.text import plain

log = logging.getLogger(__name__)

FINALIZER = "rekindle.dev/driver"

_LOG_LINES, _LOG_CHARACTERS = 20, 4096
_READ_BYTES = 1 << 20  # a limit cuts the end off, so it must not be reached
_DELETIONS_AT_ONCE = 10
_DELETION_PAUSES = (0.5, 2.0, 0.0)  # after each try; the status waits for it
_CLEAN_UP_SECONDS = 30.0  # for all of it, however many: a look has two minutes, and others wait for its worker
_MOST_DIGITS = 9  # of an attempt: whoever may make pods may forge its label
_WATCHED = (ApplicationState.SUBMITTED, ApplicationState.RUNNING)


class Reconciler:
    """Looks at applications. Holds no state of its own: all of it is in the API."""

    def __init__(
        self,
        kube: Kube,
        store: ApplicationStore,
        pods: Union,
        nodes: Informer | None,
        events: EventRecorder,
        metrics: Metrics,
    ) -> None:
        self._kube, self._store, self._pods, self._nodes = kube, store, pods, nodes
        self._events, self._metrics = events, metrics
        self._specs = SpecReader()

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
        view = await self._view(body)
        return await self._apply(body, view, decide(view))

    async def _hold(self, body: Object) -> None:
        """Put our finalizer on it before anything is made for it."""
        finalizers = [*(body["metadata"].get("finalizers") or ()), FINALIZER]
        await self._patch(body, {"metadata": {"finalizers": finalizers}})

    async def _view(self, body: Object) -> View:
        metadata, read = body["metadata"], self._specs.read(body)
        status, problem = parse_status(body)
        names = AttemptNames(metadata["name"], uid_of(body), status.attempt, status.attempt_word)
        deletion = metadata.get("deletionTimestamp")
        view = View(
            name=metadata["name"],
            namespace=metadata["namespace"],
            uid=uid_of(body),
            generation=int(metadata.get("generation") or 0),
            status=status,
            application=read.application,
            problems=read.problems,
            digest=read.digest,
            last_attempt=max(
                (_attempt_of(pod) for pod in self._drivers(metadata["namespace"], uid_of(body))), default=0
            ),
            status_problem=problem,
            suspend=(body.get("spec") or {}).get("suspend") is True,
            deleted_at=parse_time(deletion) if deletion else None,
            now=time.time(),
            next_word=token_hex(8),
        )
        driver = await self._driver(view, names) if status.attempt else None
        return replace(
            view,
            driver=driver,
            others=await self._other_drivers(view, driver),
            executors=executor_facts(self._executors(view, driver), status.executors.ever_started),
            log_tail=await self._log_tail(view, driver),
        )

    async def _driver(self, view: View, names: AttemptNames) -> DriverFacts | None:
        """The driver of the present attempt. That a pod or a node is gone is never taken from a copy."""
        pod = self._pods.get(Key(view.namespace, names.driver_pod))
        is_over = view.status.application_state.state.is_terminal
        if pod is None and not is_over:
            pod = await self._kube.find(POD, view.namespace, names.driver_pod)
        info = view.status.driver_info
        if pod is not None and (uid_of(pod) == info.pod_uid or (not info.pod_uid and is_owned_by(pod, view.uid))):
            return await self._facts(pod)  # also one whose owner somebody took away since it was seen: it runs on
        if is_over or not info.pod_uid:
            return None
        return vanished(names.driver_pod, info.pod_uid, await self._node(info.node_name))

    async def _facts(self, pod: Object) -> DriverFacts:
        name = pod["spec"].get("nodeName")
        is_known = self._nodes is not None and bool(name)
        return driver_facts(pod, await self._node(name), node_known=is_known)

    async def _node(self, name: str | None) -> Object | None:
        """The node, None where there is none; that it is not well is never taken from a copy."""
        if self._nodes is None or not name:
            return None
        node = self._nodes.get(Key("", name))
        return node if node is not None and is_well(node) else await self._kube.find(NODE, None, name)

    async def _other_drivers(self, view: View, driver: DriverFacts | None) -> list[DriverFacts]:
        """Drivers of this application that are not the present one, and not proven gone."""
        pods = self._drivers(view.namespace, view.uid)
        found = [await self._facts(pod) for pod in pods if driver is None or uid_of(pod) != driver.pod_uid]
        return [facts for facts in found if not facts.proven_gone]

    def _drivers(self, namespace: str, uid: str) -> list[Object]:
        """All driver pods of an application; in its namespace and owned by it, for labels can be forged."""
        return [
            pod
            for pod in self._pods.of(uid)
            if labels_of(pod).get(labels.SPARK_ROLE) == "driver"
            and pod["metadata"]["namespace"] == namespace
            and is_owned_by(pod, uid)
        ]

    def _executors(self, view: View, driver: DriverFacts | None) -> list[Object]:
        """Pods that the driver made, by its ownership: labels can be forged."""
        owner = driver.pod_uid if driver is not None else view.status.driver_info.pod_uid
        mine = (pod for pod in self._pods.of(view.uid) if pod["metadata"]["namespace"] == view.namespace)
        return [pod for pod in mine if owner and is_owned_by(pod, owner)]

    async def _log_tail(self, view: View, driver: DriverFacts | None) -> str:
        if driver is None or driver.phase is not DriverPhase.FAILED or driver.exit_code is None:
            return ""
        if view.status.application_state.state not in _WATCHED:
            return ""
        try:
            tail = await self._kube.log(
                view.namespace, driver.pod_name, CONTAINER, lines=_LOG_LINES, most_bytes=_READ_BYTES
            )
            return plain(tail)[-_LOG_CHARACTERS:]
        except KubeError as error:
            log.info("no log of %s: %s", driver.pod_name, error)
            return ""

    async def _apply(self, body: Object, view: View, decision: Decision) -> float | None:
        clean_ups = [step for step in decision.steps if isinstance(step, CleanUp)]
        is_over = view.driver is None or view.driver.proven_gone
        if is_over:  # else the driver is told to end first: it may live on if the write below is refused
            await self._clean_up(view, clean_ups)
        body = await self._write(body, decision.status)
        self._tell(body, view.status, decision)
        for step in decision.steps:
            if isinstance(step, Submit):
                if (refusal := await self._submit(body, view, decision.status)) is not None:
                    refused = replace(view, status=decision.status, driver=None, submission_error=refusal)
                    return await self._apply(body, refused, decide(refused))
            else:
                await self._take(body, view, step)
        if not is_over:
            await self._clean_up(view, clean_ups)
        return decision.delay

    def _tell(self, body: Object, before: ApplicationStatus, decision: Decision) -> None:
        after = decision.status
        if len(after.transitions) and after.transitions[-1:] != before.transitions[-1:]:
            entered = after.transitions[-1]
            state = entered.state.value
            self._metrics.transitions.labels(body["metadata"]["namespace"], state, entered.reason).inc()
            log.info("attempt %d: %s, %s: %s", entered.attempt, state, entered.reason, entered.message)
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

    async def _submit(self, body: Object, view: View, status: ApplicationStatus) -> str | None:
        """Make what of the attempt is not there; what the API server refused, in words."""
        assert view.application is not None
        owner = owner_reference(body, SPARK_APPLICATION)
        names = AttemptNames(view.name, view.uid, status.attempt, status.attempt_word)
        began = time.monotonic()
        for made in attempt_objects(view.application, names, view.namespace, owner):
            try:
                await self._create(view, made)
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

    async def _create(self, view: View, made: Made) -> None:
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
            if "data" in made.body and there.get("data") != made.body["data"]:  # by another version, or another hand
                await self._kube.delete(made.resource, view.namespace, made.name, uid=uid_of(there))
                raise Unavailable(409, f"{made.resource.kind} {made.name} has other data: it is made anew") from None

    async def _take(self, body: Object, view: View, step: Step) -> None:
        if isinstance(step, DeleteDriver):
            grace = 0 if step.at_once else None
            await self._kube.delete(POD, view.namespace, step.pod_name, uid=step.pod_uid, grace=grace)
        elif isinstance(step, ForgetDrivers):
            for pod in self._drivers(view.namespace, view.uid):
                if _attempt_of(pod) <= step.attempt:
                    await self._kube.delete(POD, view.namespace, pod["metadata"]["name"], uid=uid_of(pod))
        elif isinstance(step, ReleaseFinalizer):
            left = [name for name in body["metadata"].get("finalizers") or () if name != FINALIZER]
            if len(left) != len(body["metadata"].get("finalizers") or ()):
                await self._patch(body, {"metadata": {"finalizers": left}})
        elif isinstance(step, DeleteApplication):
            version = body["metadata"]["resourceVersion"]  # one that is edited meanwhile is to run again
            await self._kube.delete(SPARK_APPLICATION, view.namespace, view.name, uid=view.uid, version=version)

    async def _clean_up(self, view: View, steps: Sequence[CleanUp]) -> None:
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
            pods = [pod for pod in self._executors(view, view.driver) if not _stays(view, pod)]
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


def _attempt_of(pod: Object) -> int:
    """The attempt that a driver's pod says it is of; 0 where it says none, or one that no application lives to see."""
    said = labels_of(pod).get(labels.LABEL_ATTEMPT, "")
    return int(said) if said.isdecimal() and len(said) <= _MOST_DIGITS else 0
