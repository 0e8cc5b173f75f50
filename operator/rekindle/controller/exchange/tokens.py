"""The tokens by which job masters know the operator.

All are made from one key, in a Secret beside the operator's Lease, so that the next operator has the same. A driver's
pod gets the digest of its token: it opens nothing, and so no Secret has to be made, or may be read, where applications
are. A token opens the one driver that it is made for, to whom it is told.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import secrets

from rekindle.controller.kube import Kube, KubeError, Refused
from rekindle.controller.resources import SECRET

log = logging.getLogger(__name__)

_PAUSE = 5.0
_BYTES = 32


class ExchangeTokens:
    """Of all drivers of one operator; none before `load` has found or made the key."""

    def __init__(self, kube: Kube, namespace: str, name: str) -> None:
        """Where the Secret is."""
        self._kube, self._namespace, self._name = kube, namespace, name
        self._key: bytes | None = None
        self.are_tried = asyncio.Event()
        """Set when the key was asked for once: who waits for more may wait for ever."""

    async def load(self) -> None:
        """Find the key, or make it. Where that is refused there are no tokens: job masters hear of no blocks, and
        tell of no job."""
        while True:
            try:
                self._key = await self._stored() or await self._made()
                return
            except (Refused, ValueError) as error:
                log.warning("job masters are not asked: Secret %s: %s", self._name, error)
                return
            except KubeError as error:
                log.warning("Secret %s cannot be asked for, again in %g s: %s", self._name, _PAUSE, error)
            finally:
                self.are_tried.set()
            await asyncio.sleep(_PAUSE)

    @property
    def are_known(self) -> bool:
        """Whether there is a key to make them from."""
        return self._key is not None

    def token(self, uid: str, driver_pod: str) -> str | None:
        """Of the driver with that pod, of the application with that uid."""
        if self._key is None:
            return None
        return hmac.new(self._key, f"{uid}/{driver_pod}".encode(), hashlib.sha256).hexdigest()

    def digest(self, uid: str, driver_pod: str) -> str | None:
        """The SHA-256 of its token, in hex."""
        token = self.token(uid, driver_pod)
        return None if token is None else hashlib.sha256(token.encode()).hexdigest()

    async def _stored(self) -> bytes | None:
        found = await self._kube.find(SECRET, self._namespace, self._name)
        if found is None:
            return None
        try:
            key = base64.b64decode((found.get("data") or {}).get("key", ""), validate=True)
        except binascii.Error:
            key = b""
        if len(key) < _BYTES:
            raise ValueError("it has no data.key of 32 bytes; delete it, and restart the operator")
        return key

    async def _made(self) -> bytes:
        key = secrets.token_bytes(_BYTES)
        data = {"key": base64.b64encode(key).decode()}
        await self._kube.create(SECRET, self._namespace, {"metadata": {"name": self._name}, "data": data})
        return key
