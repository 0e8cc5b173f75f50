"""All that a decision about an application is made of: read from copies, and from the API where a copy will not do."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from secrets import token_hex
from typing import TypeAlias

from rekindle.api.application_status import ApplicationState, SpeculationStatus
from rekindle.controller.clock import parse_time
from rekindle.controller.decision import View
from rekindle.controller.driver_facts import DriverFacts, DriverPhase, driver_facts, is_well, vanished
from rekindle.controller.executor_facts import executor_facts
from rekindle.controller.informer import Informer, Union
from rekindle.controller.kube import Kube, KubeError
from rekindle.controller.reading import SpecReader, parse_status
from rekindle.controller.recovery.job_facts import JobFacts
from rekindle.controller.recovery.volume_facts import VolumeFacts, own_volumes, volume_facts, what_is_wrong
from rekindle.controller.resources import (
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    Key,
    Object,
    is_owned_by,
    labels_of,
    uid_of,
)
from rekindle.controller.submission import names as labels
from rekindle.controller.submission.driver_pod import CONTAINER
from rekindle.controller.submission.names import AttemptNames
from rekindle.controller.submission.storage import claim_names, where_it_is_offered, why_unbound
from rekindle.controller.text import plain

log = logging.getLogger(__name__)

_LOG_LINES, _LOG_CHARACTERS = 20, 4096
_READ_BYTES = 1 << 20  # a limit cuts the end off, so it must not be reached
_MOST_DIGITS = 9  # of an attempt: whoever may make pods may forge its label
_WATCHED = (ApplicationState.SUBMITTED, ApplicationState.RUNNING)


SpeculationOf: TypeAlias = Callable[[Key], SpeculationStatus | None]
"""What is known of slow tasks of an application; None where nobody looks for them."""

JobOf: TypeAlias = Callable[[Key, str, bool], JobFacts | None]
"""What the job master in the pod with that uid told, its very last word where True; None where it told nothing."""


class Observer:
    """Looks, and changes nothing. `nodes` is None where the operator may not read nodes."""

    def __init__(
        self,
        kube: Kube,
        pods: Union,
        claims: Union,
        nodes: Informer | None,
        speculation: SpeculationOf,
        job_of: JobOf,
    ) -> None:
        self._kube, self._pods, self._claims, self._nodes = kube, pods, claims, nodes
        self._speculation, self._job_of = speculation, job_of
        self._specs = SpecReader()

    async def view(self, body: Object) -> View:
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
            last_attempt=max((attempt_of(pod) for pod in self.drivers(metadata["namespace"], uid_of(body))), default=0),
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
            executors=executor_facts(self.executors(view, driver), status.executors.ever_started),
            speculation=self._speculation(Key(view.namespace, view.name)),
            job=self._job_of(
                Key(view.namespace, view.name), status.driver_info.pod_uid, driver is None or driver.has_ended
            ),
            log_tail=await self._log_tail(view, driver),
            unbound_claims=await self._unbound_claims(view, names, driver),
            volumes=await self._volumes(view, names),
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
        pods = self.drivers(view.namespace, view.uid)
        found = [await self._facts(pod) for pod in pods if driver is None or uid_of(pod) != driver.pod_uid]
        return [facts for facts in found if not facts.proven_gone]

    async def _unbound_claims(self, view: View, names: AttemptNames, driver: DriverFacts | None) -> list[str]:
        """Of a driver that is not placed for want of a volume. One that is made for whoever comes first is unbound for
        other reasons too."""
        if view.application is None or driver is None or driver.phase is not DriverPhase.PENDING:
            return []
        if driver.node_name or "volume" not in driver.message.lower():
            return []
        found: list[str] = []
        unbound: Object | None = None
        for name in claim_names(view.application.spec, names):
            claim = await self._kube.find(PERSISTENT_VOLUME_CLAIM, view.namespace, name)
            if (why := why_unbound(name, claim)) is not None:
                found.append(why)
                unbound = claim or unbound
        if unbound is not None:
            others, _ = await self._kube.list_all(PERSISTENT_VOLUME_CLAIM, view.namespace)
            found.append(where_it_is_offered(unbound, others))
        return found

    async def _volumes(self, view: View, names: AttemptNames) -> VolumeFacts | None:
        """Of a store of the application's own. That a claim is gone, or going, is never taken from a copy."""
        if view.application is None or not view.status.attempt:
            return None
        volumes = own_volumes(view.application.spec, names)
        if not volumes:
            return None
        claims = {}
        for volume in volumes:
            claim = self._claims.get(Key(view.namespace, volume.claim))
            if what_is_wrong(claim):
                claim = await self._kube.find(PERSISTENT_VOLUME_CLAIM, view.namespace, volume.claim)
            if claim is not None:
                claims[volume.claim] = claim
        return volume_facts(volumes, claims, view.uid)

    def drivers(self, namespace: str, uid: str) -> list[Object]:
        """All driver pods of an application; in its namespace and owned by it, for labels can be forged."""
        return [
            pod
            for pod in self._pods.of(uid)
            if labels_of(pod).get(labels.SPARK_ROLE) == "driver"
            and pod["metadata"]["namespace"] == namespace
            and is_owned_by(pod, uid)
        ]

    def executors(self, view: View, driver: DriverFacts | None) -> list[Object]:
        """Pods of the present driver, which may be gone."""
        owner = driver.pod_uid if driver is not None else view.status.driver_info.pod_uid
        return pods_of_driver(self._pods, view.namespace, view.uid, owner)

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


def pods_of_driver(pods: Union, namespace: str, application: str, driver: str) -> list[Object]:
    """Pods that the driver of an application made (both by their uids), by its ownership: labels can be forged."""
    mine = (pod for pod in pods.of(application) if pod["metadata"]["namespace"] == namespace)
    return [pod for pod in mine if driver and is_owned_by(pod, driver)]


def attempt_of(pod: Object) -> int:
    """The attempt that a driver's pod says it is of; 0 where it says none, or one that no application lives to see."""
    said = labels_of(pod).get(labels.LABEL_ATTEMPT, "")
    return int(said) if said.isdecimal() and len(said) <= _MOST_DIGITS else 0
