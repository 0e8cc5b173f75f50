"""Kubernetes events about applications, blocks and nodes: sent in the background, bounded in number and rate.

An event is for people; a decision never waits for one, and none is worth an application's progress. What is not
sent is counted.
"""

import asyncio
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from rekindle.controller.clock import format_micro_time
from rekindle.controller.decision import Said
from rekindle.controller.kube import Kube, KubeError
from rekindle.controller.resources import EVENT, NODE, SPARK_APPLICATION, Object, Resource
from rekindle.controller.text import shortened

log = logging.getLogger(__name__)

_MOST_WAITING = 1000
_MOST_KNOWN = 10_000
_BURST, _PER_SECOND = 25.0, 0.2
_LONGEST_NOTE, _LONGEST_REASON = 1024, 128
_CONTROLLER = "rekindle.dev/operator"
_NAMESPACE_OF_NONE = "default"
"""Where Kubernetes wants events about what lies in no namespace."""


@dataclass
class _Bucket:
    tokens: float
    at: float


class EventRecorder:
    """Sends what is recorded, at most a burst of 25 and then one in five seconds for each object."""

    def __init__(self, kube: Kube, instance: str, dropped: Callable[[], None]) -> None:
        self._kube, self._instance, self._dropped = kube, instance, dropped
        self._queue: asyncio.Queue[tuple[str, Object]] = asyncio.Queue(_MOST_WAITING)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def record(self, regarding: Object, said: Said, resource: Resource = SPARK_APPLICATION) -> None:
        """Send `said` about an object of that kind when there is time."""
        metadata = regarding["metadata"]
        if not self._allows(metadata["uid"]) or self._queue.full():
            self._dropped()
            return
        namespace = metadata.get("namespace") or _NAMESPACE_OF_NONE
        self._queue.put_nowait((namespace, self._event(metadata, said, resource)))

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            namespace, event = await self._queue.get()
            try:
                await self._kube.create(EVENT, namespace, event)
            except KubeError as error:
                self._dropped()
                log.debug("an event was not taken: %s", error)

    def _allows(self, uid: str) -> bool:
        now = time.monotonic()
        bucket = self._buckets.setdefault(uid, _Bucket(_BURST, now))
        self._buckets.move_to_end(uid)
        while len(self._buckets) > _MOST_KNOWN:
            self._buckets.popitem(last=False)
        bucket.tokens = min(_BURST, bucket.tokens + (now - bucket.at) * _PER_SECOND)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _event(self, metadata: Object, said: Said, resource: Resource) -> Object:
        return {
            "metadata": {"name": f"{metadata['name'][:40]}.{uuid.uuid4().hex[:16]}"},
            "eventTime": format_micro_time(time.time()),
            "reportingController": _CONTROLLER,
            "reportingInstance": self._instance,
            "action": shortened(said.reason, _LONGEST_REASON),
            "reason": shortened(said.reason, _LONGEST_REASON),
            "type": said.type,
            "note": shortened(said.message, _LONGEST_NOTE),
            "regarding": {
                "apiVersion": resource.api_version,
                "kind": resource.kind,
                **({"namespace": metadata["namespace"]} if resource.namespaced else {}),
                "name": metadata["name"],
                # kubectl describes a node with the events of its name.
                "uid": metadata["name"] if resource is NODE else metadata["uid"],
            },
        }
