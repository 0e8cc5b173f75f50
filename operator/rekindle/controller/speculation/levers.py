"""What is done to executors: drained, and duplicated. Whatever it does can be done twice."""

import logging
from dataclasses import dataclass

from rekindle.controller.kube import Gone, Kube, Refused, Taken
from rekindle.controller.resources import (
    PERSISTENT_VOLUME_CLAIM,
    POD,
    Object,
    Resource,
    is_owned_by,
    labels_of,
    uid_of,
)
from rekindle.controller.speculation.clone import ID_VARIABLE, LABEL_DUPLICATE, claims_of, clone_of, own_claims
from rekindle.controller.speculation.executors import DRAIN_SECONDS, Executor, executors_of
from rekindle.controller.submission.names import SPARK_SELECTOR

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether it was done, and what is to be said of it; nothing where there was nothing to do.

    Attributes:
        made: ids of executors that were made.
    """

    done: bool
    message: str = ""
    made: tuple[int, ...] = ()


class ExecutorLevers:
    """Acts on the executor pods of one namespace after another."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def drain(self, namespace: str, executor: Executor, *, at_once: bool) -> Outcome:
        """Delete the pod: before it ends it tells its executor to leave, which ends its tasks and moves its blocks.

        `at_once`: within the grace that the pod was made with.
        """
        pod = await self._kube.find(POD, namespace, executor.pod)
        if pod is None:
            return Outcome(True)
        if not at_once and not _drains(pod):
            return Outcome(
                False,
                f"executor {executor.id} on {executor.node} cannot be drained, and gets tasks as before: its pod has "
                "no preStop hook; leave spark.decommission.enabled as it is (true)",
            )
        grace = None if at_once else DRAIN_SECONDS
        await self._kube.delete(POD, namespace, executor.pod, uid=executor.uid, grace=grace)
        how = "has to end" if at_once else "is told to take no more tasks, and ends when those that it runs have"
        return Outcome(True, f"executor {executor.id} on {executor.node} {how}")

    async def live_duplicates(self, driver: Object) -> list[Executor]:
        """The duplicates of a driver that take tasks or will, by the API and no copy: none is to be made twice."""
        selector = f"{LABEL_DUPLICATE}=true,{SPARK_SELECTOR}={labels_of(driver).get(SPARK_SELECTOR, '')}"
        pods, _ = await self._kube.list_all(POD, driver["metadata"]["namespace"], selector)
        found = executors_of(pod for pod in pods if is_owned_by(pod, uid_of(driver)))
        return [one for one in found if one.is_live]

    async def remove_all(self, driver: Object) -> None:
        """Delete the duplicates of a driver that has ended."""
        for one in await self.live_duplicates(driver):
            await self._kube.delete(POD, driver["metadata"]["namespace"], one.pod, uid=one.uid)

    async def duplicate(
        self, namespace: str, original: Executor, ids: list[int], avoid_hosts: frozenset[str]
    ) -> Outcome:
        """Make executors with these ids like `original`. Raises Unavailable."""
        pod = await self._kube.find(POD, namespace, original.pod)
        if pod is None:
            return Outcome(False, f"executor {original.id} is gone, and cannot be duplicated")
        for number in ids:
            try:
                await self._make(namespace, pod, clone_of(pod, number, avoid_nodes=avoid_hosts))
            except (Refused, Taken, Gone, ValueError) as error:
                return Outcome(False, f"no duplicate of executor {original.id} can be made: {error}")
        said = f"executors {', '.join(map(str, ids))} are duplicates of executor {original.id}"
        return Outcome(True, said, tuple(ids))

    async def _make(self, namespace: str, pod: Object, clone: Object) -> None:
        """First asked for without effect: claims would stay of a pod that is refused."""
        await self._kube.create(POD, namespace, clone, dry_run=True)
        there = {name: await self._kube.get(PERSISTENT_VOLUME_CLAIM, namespace, name) for name in own_claims(pod)}
        for claim in claims_of(pod, clone, there):
            await self._create(PERSISTENT_VOLUME_CLAIM, namespace, claim)
        await self._create(POD, namespace, clone)

    async def _create(self, resource: Resource, namespace: str, body: Object) -> None:
        try:
            await self._kube.create(resource, namespace, body)
        except Taken as error:  # it is there: an answer was lost
            log.debug("%s", error)


def _drains(pod: Object) -> bool:
    """Whether Spark's own container has the hook: a sidecar's would let it be killed."""
    return any(
        "preStop" in (container.get("lifecycle") or {})
        for container in pod["spec"]["containers"]
        if any(variable.get("name") == ID_VARIABLE for variable in container.get("env") or ())
    )
