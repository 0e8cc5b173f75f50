"""What the command line does on a cluster; errors are sentences for a person."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import yaml

from rekindle.api.application_status import ApplicationState, ApplicationStatus
from rekindle.api.manifest import ManifestError, load_manifest
from rekindle.api.unsupported import refusals
from rekindle.controller.kube import Gone, Kube, KubeError, Refused, Taken, Unavailable
from rekindle.controller.reading import read_status
from rekindle.controller.resources import POD, SPARK_APPLICATION, Object, Resource, labels_of, uid_of
from rekindle.controller.submission import names as labels
from rekindle.controller.submission.driver_pod import CONTAINER

T = TypeVar("T")

_MANAGER = "rekindle"
_EVERY = 1.0
_AWAY_SECONDS = 300.0
_MOST_LOG_BYTES = 64 << 20
_ALL_LINES = 10_000_000
_UNKNOWN_KIND = ("could not find the requested resource", "404 page not found")


class RemoteError(Exception):
    """The cluster did not do what was asked; the message says what and what to do."""


def on_cluster(act: Callable[[Kube], Coroutine[Any, Any, T]], about: Resource = SPARK_APPLICATION) -> T:
    """Run `act`, which is about objects of that kind, with a connection. Raises RemoteError."""

    async def connected() -> T:
        kube = await Kube.connect()
        try:
            return await act(kube)
        finally:
            await kube.close()

    try:
        return asyncio.run(connected())
    except KubeError as error:
        raise RemoteError(_in_words(error, about)) from None
    except OSError as error:
        raise RemoteError(str(error)) from None


def read_manifest(path: Path) -> Object:
    """The manifest as it is sent: checked here first, so that what is wrong is told with its line. ManifestError."""
    application = load_manifest(path)
    if wrong := refusals(application):
        raise ManifestError("\n".join(f"{path}: {problem}" for problem in wrong))
    document: Object = yaml.safe_load(path.read_text(encoding="utf-8"))
    return document


async def submit(kube: Kube, manifest: Object, namespace: str | None, *, force: bool = False) -> Object:
    """Server-side apply: twice is once. The stored object. RemoteError where a field is somebody else's.

    `force` takes such fields over.
    """
    place = namespace or manifest["metadata"].get("namespace") or "default"
    body = {**manifest, "metadata": {**manifest["metadata"], "namespace": place}}
    body["apiVersion"] = SPARK_APPLICATION.api_version
    try:
        return await kube.apply(SPARK_APPLICATION, place, body, manager=_MANAGER, force=force)
    except Taken as error:
        raise RemoteError(f"{error}; somebody else keeps these fields: --force takes them over") from None


async def list_applications(kube: Kube, namespace: str | None) -> list[Object]:
    """All applications of a namespace, None: of all."""
    items, _ = await kube.list_all(SPARK_APPLICATION, namespace)
    return sorted(items, key=lambda body: (body["metadata"]["namespace"], body["metadata"]["name"]))


async def get(kube: Kube, namespace: str, name: str) -> Object:
    """One application. RemoteError where there is none."""
    body = await kube.find(SPARK_APPLICATION, namespace, name)
    if body is None:
        raise RemoteError(
            f"no application {name} in namespace {namespace}; `rekindle list --all-namespaces` shows all there are"
        )
    return body


async def follow(kube: Kube, namespace: str, name: str) -> AsyncIterator[ApplicationStatus]:
    """The status at each change of it, until the application has ended; an API server may be away for a while."""
    before: tuple[object, ...] = ()
    answered = time.monotonic()
    while True:
        try:
            body = await get(kube, namespace, name)
        except Unavailable:
            if time.monotonic() - answered > _AWAY_SECONDS:
                raise
            await asyncio.sleep(_EVERY)
            continue
        answered = time.monotonic()
        status = read_status(body)
        is_seen = status.observed_generation >= int(body["metadata"].get("generation") or 0)
        now = (status.application_state, status.attempt)
        if is_seen and now != before:
            yield status
        if is_seen and status.application_state.state.is_terminal:
            return
        before = now if is_seen else before
        await asyncio.sleep(_EVERY)


async def delete(kube: Kube, namespace: str, name: str, *, wait: float) -> None:
    """Delete the application and wait so many seconds for its end. RemoteError where it takes longer."""
    body = await get(kube, namespace, name)
    await kube.delete(SPARK_APPLICATION, namespace, name, uid=uid_of(body))
    deadline = time.monotonic() + wait
    while time.monotonic() < deadline:
        there = await kube.find(SPARK_APPLICATION, namespace, name)
        if there is None or uid_of(there) != uid_of(body):
            return
        await asyncio.sleep(_EVERY / 4)
    if wait:
        raise RemoteError(
            f"{name} is being deleted, and was not gone within {wait:g} s: its driver runs on, or no operator does"
        )


async def driver_log(kube: Kube, namespace: str, name: str, attempt: int | None, lines: int | None) -> str:
    """The log of a driver: of the present attempt, or of the one asked for. RemoteError where there is none."""
    body = await get(kube, namespace, name)
    wanted = attempt or read_status(body).attempt
    if not wanted:
        raise RemoteError(f"{name} has not been submitted: `rekindle status {name}` says why")
    selector = f"{labels.LABEL_UID}={uid_of(body)},{labels.SPARK_ROLE}=driver"
    pods, _ = await kube.list_all(POD, namespace, selector)
    by_attempt = {labels_of(pod).get(labels.LABEL_ATTEMPT): pod for pod in pods}
    pod = by_attempt.get(str(wanted))
    if pod is None:
        there = ", ".join(sorted(number for number in by_attempt if number)) or "none"
        raise RemoteError(f"no pod of attempt {wanted} of {name} is left; attempts with one: {there}")
    try:
        return await kube.log(
            namespace, pod["metadata"]["name"], CONTAINER, lines=lines or _ALL_LINES, most_bytes=_MOST_LOG_BYTES
        )
    except (Gone, Refused) as error:
        raise RemoteError(f"the driver of {name} has no log yet: {error}") from None


def has_ended(body: Object) -> bool:
    """Whether this very spec has run to its end: to send it again starts nothing."""
    status = read_status(body)
    is_seen = status.observed_generation == int(body["metadata"].get("generation") or 0)
    return is_seen and status.application_state.state.is_terminal


def exit_code(state: ApplicationState) -> int:
    """0 for a success, 1 for a failure."""
    return 0 if state is ApplicationState.COMPLETED else 1


def _in_words(error: KubeError, about: Resource) -> str:
    if error.status == 404 and any(words in str(error) for words in _UNKNOWN_KIND):
        return f"the cluster does not know {about.kind}s: install the chart, or kubectl apply -f crds/"
    return str(error)
