"""Calls to the API server with plain JSON objects, over the official client's connection and credentials.

Every call has a deadline. An answer that is no success becomes one of four errors, since callers do three
things: go on (Gone, Taken), tell the user (Refused), or try again later (Unavailable).
"""

import json
import os
from collections.abc import AsyncIterator, Mapping
from typing import cast
from urllib.request import getproxies_environment

import aiohttp
from kubernetes.aio import client, config

from rekindle.controller import bounded
from rekindle.controller.bounded import TooLarge
from rekindle.controller.resources import Object, Resource

_CALL_SECONDS = 15.0
_WATCH_SECONDS = 55
_SILENT_SECONDS = 70.0  # a watch that has not ended by then hangs on a dead connection
_PAGE = 500

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class KubeError(Exception):
    """A call that did not do what was asked. `status` is the HTTP status, 0 where there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Gone(KubeError):
    """404: there is no such object; or 410: the version asked for is too old."""


class Taken(KubeError):
    """409: the name is taken, or the object has changed since it was read."""


class Refused(KubeError):
    """Another 4xx: the server will say the same again, so somebody has to change something."""


class Unavailable(KubeError):
    """No answer in time, 429 or 5xx: try again later."""


class Kube:
    """A connection to the API server. Close it."""

    def __init__(self, api_client: client.ApiClient) -> None:
        self._client = api_client

    @classmethod
    async def connect(cls) -> "Kube":
        """With the pod's service account, else with the kubeconfig. OSError where there is neither."""
        configuration = client.Configuration()
        path = os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
        try:
            if is_in_pod():
                config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            elif any(os.path.exists(file) for file in path.split(os.pathsep)):
                await config.load_kube_config(path, client_configuration=configuration)  # type: ignore[no-untyped-call]
            else:
                raise OSError(f"no cluster: there is no {path}; set KUBECONFIG, or run in a pod")
        except config.ConfigException as error:
            raise OSError(f"no cluster: {path}: {error}") from None
        # Else each call looks for a netrc, whose passwords would be refused beside our token, and for proxies.
        configuration.client_session_kwargs = {"trust_env": bool(getproxies_environment().keys() - {"no"})}
        return cls(client.ApiClient(configuration=configuration))

    async def close(self) -> None:
        """End all connections."""
        await self._client.close()  # type: ignore[no-untyped-call]

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """The object. Raises Gone."""
        return await self._call("GET", resource.path(namespace, name))

    async def find(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        """The object, None where it is not there."""
        try:
            return await self.get(resource, namespace, name)
        except Gone:
            return None

    async def list_all(self, resource: Resource, namespace: str | None, selector: str = "") -> tuple[list[Object], str]:
        """All objects, page by page, and the version that a watch goes on from."""
        items: list[Object] = []
        token = ""
        while True:
            query = {"limit": str(_PAGE), "labelSelector": selector, "continue": token}
            page = await self._call("GET", resource.path(namespace), query=query)
            items += page.get("items") or ()
            token = page["metadata"].get("continue") or ""
            if not token:
                return items, str(page["metadata"]["resourceVersion"])

    async def read(
        self, resource: Resource, namespace: str | None, selector: str, *, seconds: float, most_bytes: int
    ) -> bytes:
        """A list as it is answered, within that time. Raises Unavailable where it is larger."""
        path = resource.path(namespace)
        response = await self._send("GET", path, query={"labelSelector": selector}, timeout=seconds)
        try:
            return await self._read(response, most_bytes)
        except TooLarge as error:
            raise Unavailable(0, f"GET {path}: {error}") from None
        finally:
            response.close()

    async def create(self, resource: Resource, namespace: str | None, body: Object, *, dry_run: bool = False) -> Object:
        """Make the object; an unknown field in it is refused. Raises Taken, Refused. `dry_run`: only say whether."""
        query = {"fieldValidation": "Strict", "dryRun": "All" if dry_run else ""}
        return await self._call("POST", resource.path(namespace), query=query, body=_typed(resource, body))

    async def apply(
        self, resource: Resource, namespace: str | None, body: Object, *, manager: str, force: bool = False
    ) -> Object:
        """Server-side apply: what `manager` wants of the object, made or changed. Raises Refused.

        Raises Taken where another manager has other values, unless `force`: then they are overwritten.
        """
        query = {"fieldManager": manager, "force": str(force).lower(), "fieldValidation": "Strict"}
        path = resource.path(namespace, body["metadata"]["name"])
        return await self._call("PATCH", path, query=query, body=_typed(resource, body), content_type=APPLY)

    async def replace(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        """Write the object where it still has the version in `body`. Raises Taken, Gone."""
        path = resource.path(namespace, body["metadata"]["name"])
        return await self._call("PUT", path, body=_typed(resource, body))

    async def patch(
        self, resource: Resource, namespace: str | None, name: str, body: Object, *, subresource: str | None = None
    ) -> Object:
        """Change the object by a merge patch."""
        return await self._call("PATCH", resource.path(namespace, name, subresource), body=body, content_type=MERGE)

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace: int | None = None,
    ) -> bool:
        """Delete the object, with `uid` only that very one, with `version` only as it is; False where it is not."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        wanted = {"uid": uid, "resourceVersion": version}
        if preconditions := {name: value for name, value in wanted.items() if value is not None}:
            options["preconditions"] = preconditions
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            await self._call("DELETE", resource.path(namespace, name), body=options)
        except (Gone, Taken):  # 409: the name is another object's by now
            return False
        return True

    async def log(self, namespace: str, pod: str, container: str, *, lines: int, most_bytes: int) -> str:
        """The end of a container's log. Raises Gone, Refused."""
        query = {"container": container, "tailLines": str(lines), "limitBytes": str(most_bytes)}
        response = await self._send("GET", f"/api/v1/namespaces/{namespace}/pods/{pod}/log", query=query)
        raw = await self._read(response)
        return raw.decode(errors="replace")

    async def watch(
        self, resource: Resource, namespace: str | None, selector: str, version: str
    ) -> AsyncIterator[tuple[str, Object]]:
        """Changes after `version`: type and object, bookmarks too, until the server ends the stream. Raises Gone."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": selector,
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        response = await self._send("GET", resource.path(namespace), query=query, timeout=_SILENT_SECONDS)
        try:
            async for line in _lines(response.content):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise _error(status.get("code", 0), json.dumps(status))
                yield event["type"], event["object"]
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise Unavailable(0, f"the watch of {resource.plural} broke: {error or type(error).__name__}") from None
        finally:
            response.close()

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
    ) -> Object:
        response = await self._send(method, path, query=query, body=body, content_type=content_type)
        raw = await self._read(response)
        try:
            return cast(Object, json.loads(raw))
        except ValueError:
            raise Unavailable(0, f"{method} {path}: the answer is not JSON") from None

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        timeout: float = _CALL_SECONDS,
    ) -> aiohttp.ClientResponse:
        """The response of a success, its body not read yet."""
        parameters = [(name, value) for name, value in (query or {}).items() if value]
        request = await self._client.param_serialize(
            method,
            path,
            query_params=parameters,
            header_params={"Accept": "application/json", "Content-Type": content_type},
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = await self._client.call_api(*request, _request_timeout=timeout)
            response = cast(aiohttp.ClientResponse, answer.response)
            if response.status >= 400:
                raise _error(response.status, (await response.read()).decode(errors="replace"))
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unavailable(0, f"{method} {path}: {error or type(error).__name__}") from None
        return response

    async def _read(self, response: aiohttp.ClientResponse, most_bytes: int | None = None) -> bytes:
        """All of it. Raises TooLarge where it is more than `most_bytes`."""
        try:
            return await response.read() if most_bytes is None else await bounded.body(response, most_bytes)
        except (TimeoutError, aiohttp.ClientError) as error:
            raise Unavailable(0, f"the answer broke off: {error or type(error).__name__}") from None


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length: aiohttp's end at four megabytes, and anybody may label a pod that is longer as JSON."""
    parts: list[bytes] = []
    async for chunk in content.iter_any():
        first, *others = chunk.split(b"\n")
        parts.append(first)
        for part in others:
            yield b"".join(parts)
            parts = [part]
    if rest := b"".join(parts):  # it broke off within a line
        yield rest


def is_in_pod() -> bool:
    """Whether the cluster is the one that this process runs in: it is, unless KUBECONFIG names another."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ


def _typed(resource: Resource, body: Object) -> Object:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def _error(status: int, text: str) -> KubeError:
    """The error of an answer: its own message where it has one."""
    try:
        message = str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        message = text.strip()[:500] or f"HTTP status {status}"
    kind: type[KubeError] = Refused
    if status in (404, 410):
        kind = Gone
    elif status == 409:
        kind = Taken
    elif status == 429 or status >= 500 or status == 0:
        kind = Unavailable
    return kind(status, message)
