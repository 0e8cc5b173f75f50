"""Only one operator works: the holder of a Lease, compared and swapped by its resourceVersion.

The official client's election neither gives the Lease back when it stops, nor bounds a call that hangs beyond the
Lease's end, and a lost connection ends it; here the holder stops working before another may begin.
"""

import asyncio
import logging
import time

from rekindle.controller.clock import format_micro_time
from rekindle.controller.kube import Kube, KubeError, Taken
from rekindle.controller.resources import LEASE, Object, version_of

log = logging.getLogger(__name__)


class LeaseElection:
    """One candidate for the Lease `name` in `namespace`."""

    def __init__(self, kube: Kube, namespace: str, name: str, identity: str, seconds: float) -> None:
        self._kube, self._namespace, self._name = kube, namespace, name
        self._identity, self._seconds = identity, seconds
        self._seen = ""  # the version at which the present holder was last seen to have renewed
        self._seen_at = 0.0
        self._renewed = 0.0  # when the last renewal that was answered had been sent
        self._newest = 0  # the newest version in which the Lease was ever seen
        self.is_leader = False
        self.is_answered = False
        """Whether the API server has told anything of the Lease yet."""

    async def acquire(self) -> None:
        """Wait until the Lease is ours."""
        told = ""
        while not self.is_leader:
            try:
                holder = await self._try()
            except KubeError as error:
                log.warning("the Lease %s cannot be asked for: %s", self._name, error)
            else:
                self.is_answered = True
                if holder != told and holder != self._identity:
                    log.info("waiting: %s holds the Lease %s", holder, self._name)
                told = holder
            if not self.is_leader:
                await asyncio.sleep(self._seconds / 5)
        log.info("%s holds the Lease %s now", self._identity, self._name)

    async def keep(self) -> None:
        """Renew the Lease; returns when it is lost, early enough that nobody else has it yet."""
        while True:
            await asyncio.sleep(self._seconds / 5)
            try:
                async with asyncio.timeout(max(self._left(), 0.0)):
                    await self._try()
            except (KubeError, TimeoutError) as error:
                log.warning("the Lease %s was not renewed: %s", self._name, error or "no answer")
            if not self.is_leader or self._left() < 0:
                self.is_leader = False
                return

    def _left(self) -> float:
        """Seconds for which the Lease is surely ours, less a third of its duration to stop in."""
        return self._renewed + self._seconds * 2 / 3 - time.monotonic()

    async def release(self) -> None:
        """Give the Lease back, so that the next operator need not wait for its end."""
        if not self.is_leader:
            return
        self.is_leader = False
        try:
            async with asyncio.timeout(self._seconds / 3):
                lease = await self._kube.get(LEASE, self._namespace, self._name)
                if lease["spec"].get("holderIdentity") == self._identity:
                    lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._kube.replace(LEASE, self._namespace, lease)
        except (KubeError, TimeoutError) as error:
            log.warning("the Lease %s was not given back: %s", self._name, error)

    async def _try(self) -> str:
        """Take or renew the Lease if it is free, over or ours; the name of its holder."""
        found = await self._kube.find(LEASE, self._namespace, self._name)
        lease = found or {"metadata": {"name": self._name}, "spec": {}}
        spec = lease["spec"]
        if self._is_from_a_backup(lease):
            log.warning("the Lease %s is older than before: the cluster was restored from a backup", self._name)
            self.is_leader = False  # what the work knows is of a time that is no more, and no watch tells of this one
            return "nobody"
        holder = str(spec.get("holderIdentity") or "")
        if holder and holder != self._identity and not self._is_over(lease):
            self.is_leader = False
            return holder
        now, sent = format_micro_time(time.time()), time.monotonic()
        if holder != self._identity:
            spec |= {"acquireTime": now, "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1}
        spec |= {"holderIdentity": self._identity, "leaseDurationSeconds": int(self._seconds), "renewTime": now}
        try:
            if "resourceVersion" in lease["metadata"]:
                written = await self._kube.replace(LEASE, self._namespace, lease)
            else:
                written = await self._kube.create(LEASE, self._namespace, lease)
            self._newest = version_of(written)
        except Taken:  # somebody was faster, or it was us: a request whose answer is lost is sent twice
            stored = (await self._kube.get(LEASE, self._namespace, self._name))["spec"]
            if (stored.get("holderIdentity"), stored.get("renewTime")) != (self._identity, now):
                self.is_leader = False
                return str(stored.get("holderIdentity") or "nobody")
        self._renewed = sent
        self.is_leader = self._left() > 0  # an answer may come so late that the Lease is another's by now
        return self._identity

    def _is_from_a_backup(self, lease: Object) -> bool:
        """Whether versions went back since the Lease was last seen; told once."""
        version = version_of(lease)
        before, self._newest = self._newest, version or self._newest
        return 0 < version < before

    def _is_over(self, lease: Object) -> bool:
        """Whether the holder has not renewed for its whole duration by our own clock; clocks of others are not read."""
        version = str(lease["metadata"]["resourceVersion"])
        now = time.monotonic()
        if version != self._seen:
            self._seen, self._seen_at = version, now
        return now - self._seen_at > float(lease["spec"].get("leaseDurationSeconds") or self._seconds)
