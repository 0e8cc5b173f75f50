"""An API server in this process, which answers late, twice, stale, with an error or not at all where a test says so.

It speaks HTTP and keeps what the operator stands on: versions, uids, subresources, merge patches, preconditions,
finalizers, lists in pages, watches from a version. It checks no schema, makes no defaults, collects no garbage and
has no kubelet: a pod on a node is terminating until the test removes it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from unittest import mock

from aiohttp import web
from kubernetes.aio import client

from rekindle.controller.clock import format_time
from rekindle.controller.kube import Kube
from rekindle.controller.resources import Object, Resource
from rekindle.controller.status import merge_patch

DEADLINE = 10.0
"""Seconds after which a test has failed."""

NO_CERTIFICATES = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}
"""To read those of the machine, which nobody needs here, takes longer than most tests."""

_PATH = re.compile(
    r"/(?P<group>api/v1|apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+))?/(?P<plural>\w+)(/(?P<name>[^/]+))?"
    r"(/(?P<sub>\w+))?"
)
_VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]


def _group(name: str, version: str) -> Object:
    return {"name": name, "versions": [{"version": version}], "preferredVersion": {"version": version}}


def _kind(kind: str, *, namespaced: bool) -> Object:
    name = {"name": f"{kind.lower()}s", "singularName": kind.lower(), "kind": kind}
    return {"resources": [{**name, "namespaced": namespaced, "verbs": _VERBS}]}


_DISCOVERY: dict[str, Object] = {
    "/version": {"major": "1", "minor": "35"},
    "/api": {"versions": ["v1"]},
    "/api/v1": _kind("Namespace", namespaced=False),
    "/apis": {"groups": [_group("rekindle.dev", "v1beta2"), _group("apiextensions.k8s.io", "v1")]},
    "/apis/rekindle.dev/v1beta2": _kind("SparkApplication", namespaced=True),
    "/apis/apiextensions.k8s.io/v1": _kind("CustomResourceDefinition", namespaced=False),
}


class What(StrEnum):
    """What may go wrong with a call; beside it every HTTP status."""

    NOTHING = "done, and answered"
    LATE = "done, and answered once `release` is set"
    LOST = "done, and the connection closed without an answer"
    DROPPED = "not done, and the connection closed"
    GARBLED = "done, and answered with something that is not JSON"
    STALE = "a list as it was at version `at`"
    SILENT = "a watch that tells nothing before `release` is set"
    BROKEN = "a watch that breaks off within a line, after `at` changes"
    ENDED = "a watch that ends after `at` changes"
    ERROR = "a watch that says an error: its version is too old"


@dataclass
class Fault:
    """Befalls calls whose kind (the HTTP method, LIST or WATCH) is that, in whose path and body the patterns are found.

    All three are regular expressions.
    """

    call: str
    path: str
    what: What | int
    message: str = "the test says so"
    body: str = ""
    skip: int = 0
    times: int = 1
    at: int = 0
    status: int = 0
    """Of a garbled answer (200), of an error in a watch (410)."""

    hits: int = 0
    release: asyncio.Event = field(default_factory=asyncio.Event)

    def befalls(self, call: Call) -> bool:
        """Whether it does; that counts."""
        if not re.fullmatch(self.call, call.kind) or not re.search(self.path, call.path):
            return False
        if not re.search(self.body, call.text):
            return False
        self.skip -= 1
        if self.skip >= 0 or self.hits >= self.times:
            return False
        self.hits += 1
        return True


_NO_FAULT = Fault("", "", What.NOTHING)


@dataclass(frozen=True)
class Place:
    """A kind ("api/v1/pods"), a namespace, a name and a subresource; what is not said is empty."""

    kind: str
    namespace: str
    name: str
    sub: str

    @classmethod
    def of(cls, path: str) -> Place:
        found = _PATH.fullmatch(path)
        if found is None:
            raise Failure(404, "NotFound", f"the server could not find the requested resource: {path}")
        said = found.groupdict(default="")
        return cls(f"{said['group']}/{said['plural']}", said["namespace"], said["name"], said["sub"])

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.namespace, self.name

    def holds(self, key: tuple[str, str, str]) -> bool:
        """Whether a list of this place has the object with that key."""
        return key[0] == self.kind and self.namespace in ("", key[1])

    def __str__(self) -> str:
        return f'{self.kind.rpartition("/")[2]} "{self.name}"'


@dataclass(frozen=True)
class Call:
    """One request as it came."""

    kind: str
    path: str
    query: dict[str, str]
    text: str
    authorization: str

    @property
    def body(self) -> Object:
        return json.loads(self.text or "{}")

    def __str__(self) -> str:
        return f"{self.kind} {self.path}"


class Failure(Exception):
    """An answer that is an error."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}


@dataclass(frozen=True)
class Change:
    """An entry of the history; `after` is None for what was deleted, and both are None for a bookmark."""

    version: int
    key: tuple[str, str, str]
    before: Object | None
    after: Object | None

    def told(self, place: Place, selector: str) -> Object | None:
        """The event for a watch of that place; None where it is not concerned."""
        if self.before is None and self.after is None:
            return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}
        was, is_ = (body is not None and _selects(selector, body) for body in (self.before, self.after))
        if not place.holds(self.key) or not (was or is_):
            return None
        body = self.after or self.before
        assert body is not None
        stamped = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return {"type": "MODIFIED" if was and is_ else "ADDED" if is_ else "DELETED", "object": stamped}


@dataclass(frozen=True)
class Backup:
    """What there was at a version."""

    objects: dict[tuple[str, str, str], Object]
    changes: int
    version: int


def _selects(selector: str, body: Object) -> bool:
    labels = body["metadata"].get("labels") or {}
    wanted = (part.partition("=") for part in selector.split(",") if part)
    return all(labels.get(name) == value for name, _, value in wanted)


def _merged(target: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = _merged(target.get(key), value)
    return target


class ApiServer:
    """Runs as a context; `kube` is a connection to it."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.history: list[Change] = []
        self.version, self.oldest = 100, 0
        self.faults: list[Fault] = []
        self.calls: list[Call] = []
        self.logs: dict[str, str] = {}
        self.watches = 0
        """How many are open."""

        self._more = asyncio.Event()
        self._connections: list[Kube] = []

    async def __aenter__(self) -> ApiServer:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.01, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = "http://{}:{}".format(*self._runner.addresses[0])
        self.kube = self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        for kube in self._connections:
            await kube.close()
        await self.stop()

    async def stop(self) -> None:
        """Nobody listens any more."""
        await self._runner.cleanup()

    def connect(self) -> Kube:
        """Another connection; the server closes it."""
        with mock.patch.dict(os.environ, NO_CERTIFICATES):
            self._connections.append(Kube(client.ApiClient(configuration=client.Configuration(host=self.url))))
        return self._connections[-1]

    def kubeconfig(self, token: str = "t") -> str:
        """The text of a kubeconfig file."""
        return json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": self.url}}],
                "users": [{"name": "u", "user": {"token": token}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )

    # What a test does

    def fault(self, call: str, path: str, what: What | int, **more: Any) -> Fault:
        """Add a fault."""
        self.faults.append(Fault(call, path, what, **more))
        return self.faults[-1]

    def make(self, resource: Resource, namespace: str, body: Object) -> Object:
        """As another client does; this one may set a status."""
        made = self._create(Place.of(resource.path(namespace)), deepcopy(body))
        name, status = made["metadata"]["name"], {"status": body.get("status", made.get("status"))}
        return self.change(resource, namespace, name, status, "status")

    def change(
        self, resource: Resource, namespace: str, name: str, patch: Object, subresource: str | None = None
    ) -> Object:
        """As another client does, by a merge patch."""
        return self._patch(Place.of(resource.path(namespace, name, subresource)), patch)

    def remove(self, resource: Resource, namespace: str, name: str) -> None:
        """The object is gone, as when its kubelet or nobody holds it any more."""
        self._put(Place.of(resource.path(namespace, name)).key, None)

    def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        return self.objects.get(Place.of(resource.path(namespace, name)).key)

    def all(self, resource: Resource) -> list[Object]:
        place = Place.of(resource.path())
        return [self.objects[key] for key in sorted(self.objects) if place.holds(key)]

    def written(self, without: str = "/events$") -> list[str]:
        """The calls that were to change something, in order."""
        reads = ("GET", "LIST", "WATCH")
        return [str(call) for call in self.calls if call.kind not in reads and not re.search(without, call.path)]

    def bookmark(self) -> None:
        """Tell all watches the present version."""
        self._note(("", "", ""), None, None)

    def forget(self) -> None:
        """No watch may go on from before now."""
        self.oldest = self.version

    def backup(self) -> Backup:
        """As by `etcdctl snapshot save`."""
        return Backup(dict(self.objects), len(self.history), self.version)

    def restore(self, backup: Backup) -> None:
        """All is as it was, and versions count on from there: a watch from a later one tells nothing before that."""
        self.objects, self.version = dict(backup.objects), backup.version
        del self.history[backup.changes :]

    # What a client does

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        call = await _call(request)
        self.calls.append(call)
        fault = next((fault for fault in self.faults if fault.befalls(call)), _NO_FAULT)
        if fault.what is What.DROPPED:
            return _cut(request)
        if call.kind == "WATCH" and not isinstance(fault.what, int):
            return await self._watch(request, call, fault)
        answer = self._done(call, fault)
        if fault.what is What.LATE:
            await fault.release.wait()
        if fault.what is What.LOST:
            return _cut(request)
        return web.Response(text="<html>", status=fault.status or 200) if fault.what is What.GARBLED else answer

    def _done(self, call: Call, fault: Fault) -> web.Response:
        try:
            if isinstance(fault.what, int):
                raise Failure(fault.what, "", fault.message)
            if call.path in _DISCOVERY:
                return web.json_response(_DISCOVERY[call.path])
            place = Place.of(call.path)
            if place.sub == "log":
                return web.Response(body=self._log(place, call.query), content_type="text/plain")
            return web.json_response(self._object(call, place, fault), status=201 if call.kind == "POST" else 200)
        except Failure as failure:
            return web.json_response(failure.status, status=failure.code)

    def _object(self, call: Call, place: Place, fault: Fault) -> Object:
        if call.kind == "LIST":
            return self._list(place, call.query, fault.at if fault.what is What.STALE else self.version)
        if call.kind == "POST":
            return self._create(place, call.body, dry_run=bool(call.query.get("dryRun")))
        there = self._there(place)
        if call.kind == "PUT":
            self._check_version(there, call.body, place)
            return self._put(place.key, {**there, **call.body})
        if call.kind == "PATCH":
            return self._patch(place, call.body)
        return self._delete(place, call.body) if call.kind == "DELETE" else there

    def _there(self, place: Place) -> Object:
        if (there := self.objects.get(place.key)) is None:
            raise Failure(404, "NotFound", f"{place} not found")
        return there

    def _check_version(self, there: Object, body: Object, place: Place) -> None:
        if body.get("metadata", {}).get("resourceVersion", version := there["metadata"]["resourceVersion"]) != version:
            raise Failure(409, "Conflict", f"{place}: the object has been modified")

    def _create(self, place: Place, body: Object, *, dry_run: bool = False) -> Object:
        place = Place(place.kind, place.namespace, body["metadata"]["name"], "")
        if place.key in self.objects:
            raise Failure(409, "AlreadyExists", f"{place} already exists")
        made = {"uid": str(uuid.uuid4()), "creationTimestamp": format_time(time.time()), "generation": 1}
        where = {"namespace": place.namespace} if place.namespace else {}
        body = {**body, "metadata": {**body["metadata"], **where, **made}}
        body.pop("status", None)
        if place.kind == "api/v1/pods":
            body["status"] = {"phase": "Pending"}
        return body if dry_run else self._put(place.key, body)

    def _patch(self, place: Place, patch: Object) -> Object:
        there = self._there(place)
        self._check_version(there, patch, place)
        parts = {"status"} if place.sub else set(patch) - {"status"}
        after = _merged(there, {name: value for name, value in patch.items() if name in parts})
        after["metadata"]["generation"] += after.get("spec") != there.get("spec")
        was_held, is_held = (bool(body["metadata"].get("finalizers")) for body in (there, after))
        if "deletionTimestamp" in after["metadata"] and was_held and not is_held:
            self._put(place.key, None)
            return after
        return self._put(place.key, after) if merge_patch(there, after) else there

    def _delete(self, place: Place, options: Object) -> Object:
        there = self._there(place)
        metadata = there["metadata"]
        if options.get("preconditions", {}).get("uid", metadata["uid"]) != metadata["uid"]:
            raise Failure(409, "Conflict", f"{place}: the UID in the precondition does not match")
        self._check_version(there, {"metadata": options.get("preconditions", {})}, place)
        runs = place.kind == "api/v1/pods" and there["spec"].get("nodeName") and options.get("gracePeriodSeconds") != 0
        if metadata.get("finalizers") or runs:
            since = metadata.get("deletionTimestamp") or format_time(time.time())
            grace = options.get("gracePeriodSeconds", 30)
            going = {**metadata, "deletionTimestamp": since, "deletionGracePeriodSeconds": grace}
            return self._put(place.key, {**there, "metadata": going})
        self._put(place.key, None)
        return {"kind": "Status", "status": "Success"}

    def _put(self, key: tuple[str, str, str], body: Object | None) -> Object:
        before = self.objects.pop(key, None)
        version = self.version + 1
        if body is not None:
            body = self.objects[key] = {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}
        self._note(key, before, body)
        return body or {}

    def _note(self, key: tuple[str, str, str], before: Object | None, after: Object | None) -> None:
        self.version += 1
        self.history.append(Change(self.version, key, before, after))
        self._more.set()
        self._more = asyncio.Event()

    def _log(self, place: Place, query: dict[str, str]) -> bytes:
        """The last lines; of them the first bytes."""
        self._there(Place(place.kind, place.namespace, place.name, ""))
        lines = self.logs.get(place.name, "").splitlines(keepends=True)[-int(query["tailLines"]) :]
        return "".join(lines).encode()[: int(query["limitBytes"])]

    def _list(self, place: Place, query: dict[str, str], at: int) -> Object:
        """A page; items of built-in kinds do not say their kind, for the list does."""
        version, _, start = query.get("continue", f"{at}:0").partition(":")
        there = {change.key: change.after for change in self.history if change.version <= int(version)}
        unsaid = ("kind", "apiVersion") if place.kind.startswith("api/") else ()
        found = [
            {name: part for name, part in body.items() if name not in unsaid}
            for key, body in sorted(there.items(), key=lambda item: item[0])
            if body is not None and place.holds(key) and _selects(query.get("labelSelector", ""), body)
        ]
        end = int(start) + int(query.get("limit", "500"))
        more = {"continue": f"{version}:{end}"} if end < len(found) else {}
        return {"metadata": {"resourceVersion": version, **more}, "items": found[int(start) : end]}

    async def _watch(self, request: web.Request, call: Call, fault: Fault) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self.watches += 1
        try:
            async with asyncio.timeout(float(call.query.get("timeoutSeconds", DEADLINE))):
                await self._tell(response, request, call, fault)
        except TimeoutError:
            pass  # it ends as the client has asked
        finally:
            self.watches -= 1
        return response

    async def _tell(self, response: web.StreamResponse, request: web.Request, call: Call, fault: Fault) -> None:
        if fault.what is What.SILENT:
            await fault.release.wait()
        if fault.what is What.ERROR or int(call.query["resourceVersion"]) < self.oldest:
            status = Failure(fault.status or 410, "Expired", "too old resource version").status
            return await response.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        if fault.what is What.ENDED and not fault.at:
            return None
        told = 0
        async for event in self._changes(Place.of(call.path), call.query):
            line = json.dumps(event).encode() + b"\n"
            if fault.what is What.BROKEN and told == fault.at:
                await response.write(line[: len(line) // 2])
                await asyncio.sleep(0)
                _cut(request)
                return None
            await response.write(line)
            told += 1
            if fault.what is What.ENDED and told == fault.at:
                return None

    async def _changes(self, place: Place, query: dict[str, str]) -> AsyncIterator[Object]:
        index, since = 0, int(query["resourceVersion"])
        while True:
            while index < len(self.history):
                change, index = self.history[index], index + 1
                if change.version > since and (event := change.told(place, query.get("labelSelector", ""))):
                    yield event
            await self._more.wait()


async def _call(request: web.Request) -> Call:
    query = dict(request.query)
    is_list = request.method == "GET" and (found := _PATH.fullmatch(request.path)) and not found["name"]
    kind = ("WATCH" if query.get("watch") else "LIST") if is_list else request.method
    return Call(kind, request.path, query, await request.text(), request.headers.get("Authorization", ""))


def _cut(request: web.Request) -> web.Response:
    """Close the connection."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def served(case: Callable[[ApiServer], Awaitable[None]]) -> None:
    """Run `case` with a server, for so long as a test may take."""

    async def run() -> None:
        async with asyncio.timeout(DEADLINE), ApiServer() as server:
            await case(server)

    asyncio.run(run())


async def until(seen: Callable[[], Any]) -> Any:
    """What `seen` returns once it is true."""
    while not (found := seen()):
        await asyncio.sleep(0.005)
    return found
