"""How much CPU pods use, as the cluster's metrics server tells (metrics.k8s.io).

A cluster may have none, or the operator no right to it: then there are no figures, which is said once, and slow tasks
are judged without.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from rekindle.api.model import problems
from rekindle.api.quantities import parse_cores
from rekindle.controller.clock import parse_time
from rekindle.controller.kube import Gone, Kube, KubeError
from rekindle.controller.resources import POD_METRICS, Object, labels_of
from rekindle.controller.speculation.cpu import AskForUses
from rekindle.controller.speculation.executors import Executor
from rekindle.controller.speculation.spark_wire import one_line
from rekindle.controller.submission.names import SPARK_SELECTOR
from rekindle.controller.submission.properties import EXECUTOR_CONTAINER
from rekindle.core.witness import CpuUse

log = logging.getLogger(__name__)

_SECONDS = 3.0
_MOST_BYTES = 8 * 1024 * 1024
"""Of an executor there are about 700."""

_REFUSED_PAUSE = 60.0
_REASON_BYTES = 300
_MOST_CORES = 100_000.0

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z")
_WINDOW = re.compile(r"(?:([0-9]{1,4})h)?(?:([0-9]{1,4})m)?(?:([0-9]{1,6}(?:\.[0-9]{1,9})?)s)?")


def _moment(text: object) -> float:
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        raise ValueError("expected a time such as 2026-11-22T20:00:00Z")
    return parse_time(text)


def _window(text: object) -> float:
    """Seconds of what Go writes for a duration."""
    found = _WINDOW.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError("expected a duration such as 15.2s or 1m0s")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return 3600 * hours + 60 * minutes + seconds


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class _Usage(_Wire):
    cpu: Annotated[float, BeforeValidator(parse_cores), Field(le=_MOST_CORES)]


class _Container(_Wire):
    name: str
    usage: _Usage


class _Metadata(_Wire):
    name: str


class _PodMetrics(_Wire):
    metadata: _Metadata
    timestamp: Annotated[float, BeforeValidator(_moment)]
    window: Annotated[float, BeforeValidator(_window), Field(gt=0)]
    containers: list[_Container]

    def use(self) -> CpuUse:
        """Spark's own container's; where none has its name, that of the one which uses most."""
        cores = {one.name: one.usage.cpu for one in self.containers}
        used = cores.get(EXECUTOR_CONTAINER, max(cores.values()))
        return CpuUse(used, self.timestamp - self.window, self.timestamp)


class _PodMetricsList(_Wire):
    items: list[_PodMetrics]


class PodMetrics:
    """Asks the metrics server, and leaves it alone for a minute where it gave no answer that can be used."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._not_before: dict[str, float] = {}  # [selector, or empty for all -> monotonic time]
        self._said: set[str] = set()

    def of_driver(self, driver: Object, executors: Callable[[], Iterable[Executor]]) -> AskForUses:
        """What asks for the figures of a driver's executors, which are those that `executors` gives at that time."""
        namespace = str(driver["metadata"]["namespace"])
        selector = f"{SPARK_SELECTOR}={labels_of(driver).get(SPARK_SELECTOR, '')}"

        async def ask() -> Mapping[str, CpuUse]:
            by_pod = await self.uses(namespace, selector)  # of any pod with that label, which anybody may give
            return {str(one.id): by_pod[one.pod] for one in executors() if one.pod in by_pod}

        return ask

    async def uses(self, namespace: str, selector: str) -> Mapping[str, CpuUse]:
        """[pod -> what it used], of those that the selector selects; empty where nothing can be told."""
        now = time.monotonic()
        self._not_before = {about: until for about, until in self._not_before.items() if until > now}
        about = f"{namespace}/{selector}"
        if self._not_before.keys() & {"", about}:
            return {}
        try:
            raw = await self._kube.read(POD_METRICS, namespace, selector, seconds=_SECONDS, most_bytes=_MOST_BYTES)
            told = _PodMetricsList.model_validate_json(raw).items
            return {one.metadata.name: one.use() for one in told if one.containers}
        except KubeError as error:
            about = "" if isinstance(error, Gone) else about
            self._say(*_reason(error), namespace)
        except ValidationError as error:
            self._say("answer", f"the answer cannot be used: {problems(error, _PodMetricsList)[0]}", namespace)
        self._not_before[about] = time.monotonic() + _REFUSED_PAUSE
        return {}

    def _say(self, kind: str, why: str, namespace: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            why = one_line(why, _REASON_BYTES)
            log.warning("slow tasks are judged without the CPU use of pods (namespace %s): %s", namespace, why)


def _reason(error: KubeError) -> tuple[str, str]:
    """What kind of problem it is, and what would help."""
    if isinstance(error, Gone):
        return "gone", "the cluster has no metrics server (metrics.k8s.io); install one"
    if error.status == 403:
        return "forbidden", f"the operator may not list pods of metrics.k8s.io; upgrade the chart's roles: {error}"
    return "unavailable", str(error)
