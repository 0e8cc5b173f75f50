"""A cluster in a few dictionaries for the pure parts of the operator: pods as the API has them, and a clock."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from rekindle.api.application_status import ApplicationState, ApplicationStatus
from rekindle.controller.clock import format_time
from rekindle.controller.decision import (
    CleanUp,
    Decision,
    DeleteApplication,
    DeleteDriver,
    DropStore,
    ForgetDrivers,
    ReleaseFinalizer,
    Submit,
    View,
)
from rekindle.controller.driver_facts import DriverFacts, driver_facts, vanished
from rekindle.controller.executor_facts import executor_facts
from rekindle.controller.lifecycle import decide
from rekindle.controller.reading import read_spec
from rekindle.controller.recovery.job_facts import JobFacts
from rekindle.controller.recovery.volume_facts import GoneVolume, VolumeFacts
from rekindle.controller.submission.driver_pod import CONTAINER
from rekindle.controller.submission.names import LABEL_ATTEMPT, AttemptNames

UID = "0b0e7c1a-8d9f-4a51-9f0e-3d7a52c2f001"


def manifest(**spec: Any) -> dict[str, Any]:
    """A small Python application; keywords go into its spec."""
    return {
        "apiVersion": "rekindle.dev/v1beta2",
        "kind": "SparkApplication",
        "metadata": {"name": "pi", "namespace": "team", "uid": UID},
        "spec": {
            "type": "Python",
            "sparkVersion": "4.1.1",
            "image": "spark:4.1.1",
            "mainApplicationFile": "local:///app/pi.py",
            "driver": {},
            "executor": {"instances": 2},
            **spec,
        },
    }


def node(*, ready: str = "True", taints: list[dict[str, str]] | None = None, since: float = 1000.0) -> dict[str, Any]:
    """Node n1, which is ready or not since then."""
    return {
        "metadata": {"name": "n1"},
        "spec": {"taints": taints or []},
        "status": {"conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": format_time(since)}]},
    }


def driver(name: str = "pi-driver", /, **status: Any) -> dict[str, Any]:
    """A driver's pod on node n1 with this status."""
    return {
        "metadata": {"name": name, "uid": f"uid-of-{name}", "creationTimestamp": format_time(1000.0)},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Pending", **status},
    }


def container(**state: Any) -> list[dict[str, Any]]:
    """Spark's container, behind a sidecar that ends with it."""
    sidecar = {"terminated": {"exitCode": 0}} if "terminated" in state else {"running": {}}
    return [{"name": "sidecar", "state": sidecar}, {"name": CONTAINER, "state": state}]


def beside_a_sidecar(**state: Any) -> dict[str, Any]:
    """The status of a pod whose sidecar runs on, whatever Spark's container does."""
    sidecar = {"name": "sidecar", "state": {"running": {}}}
    return {"phase": "Running", "containerStatuses": [sidecar, {"name": CONTAINER, "state": state}]}


RUNNING: dict[str, Any] = {"phase": "Running", "containerStatuses": container(running={})}
SUCCEEDED: dict[str, Any] = {
    "phase": "Succeeded",
    "containerStatuses": container(terminated={"exitCode": 0, "reason": "Completed"}),
}


def failed(code: int, reason: str = "Error", at: float | None = None, **more: Any) -> dict[str, Any]:
    """`at`: when, where the kubelet tells."""
    state: dict[str, Any] = {"exitCode": code, "reason": reason}
    if at is not None:
        state["finishedAt"] = format_time(at)
    return {"phase": "Failed", "containerStatuses": container(terminated=state), **more}


def attempt_of(pod: dict[str, Any]) -> int:
    return int(pod["metadata"].get("labels", {}).get(LABEL_ATTEMPT, 0))


@dataclass
class World:
    """One application and its pods. `look` decides once and does what was decided, as the reconciler would."""

    body: dict[str, Any] = field(default_factory=manifest)
    status: ApplicationStatus = field(default_factory=ApplicationStatus)
    now: float = 1000.0
    generation: int = 1
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    executors: list[dict[str, Any]] = field(default_factory=list)
    node: dict[str, Any] | None = field(default_factory=node)
    deleted_at: float | None = None
    refusal: str = ""
    cleaned: list[int] = field(default_factory=list)
    is_released: bool = False
    is_expired: bool = False
    ghosts: set[str] = field(default_factory=set)
    """Drivers whose pods were deleted by force while the node was silent: they run on until it answers or is gone."""

    jobs: dict[str, JobFacts] = field(default_factory=dict)
    """[uid of a driver's pod -> what its job master told last]"""

    volumes: VolumeFacts | None = None
    status_problem: str = ""
    """Why the stored status could not be read; one that was stored since can be."""

    said: list[tuple[str, str, str]] = field(default_factory=list)

    def state(self) -> ApplicationState:
        return self.status.application_state.state

    @property
    def names(self) -> AttemptNames:
        return AttemptNames("pi", UID, self.status.attempt, self.status.attempt_word)

    def edit(self, **spec: Any) -> None:
        self.body["spec"] = {**self.body["spec"], **spec}
        self.generation += 1

    def driver_is(self, status: dict[str, Any]) -> None:
        """The kubelet says this of the present driver."""
        self.pods[self.names.driver_pod]["status"] = status

    def node_is(self, there: dict[str, Any] | None) -> None:
        """The node answers (again), or does not, or is gone; a kubelet that is back ends what it was told to."""
        self.node = there
        if there is None or self._answers():
            self.ghosts.clear()
        if self._answers():
            gone = [name for name, pod in self.pods.items() if "deletionTimestamp" in pod["metadata"]]
            for name in gone:
                del self.pods[name]

    def place(self) -> None:
        """The scheduler has a node; what is deleted gets none."""
        for pod in self.pods.values():
            if "deletionTimestamp" not in pod["metadata"]:
                pod["spec"] = {"nodeName": "n1"}

    def _answers(self) -> bool:
        return self.node is not None and self.node["status"]["conditions"][0]["status"] == "True"

    def view(self) -> View:
        read = read_spec(self.body)
        known = self.status.driver_info.pod_uid
        pod = self.pods.get(self.names.driver_pod) if self.status.attempt else None
        present = self._facts(pod) if pod is not None and known in ("", pod["metadata"]["uid"]) else None
        info = self.status.driver_info
        if present is None and known and not self.state().is_terminal:
            present = vanished(info.pod_name, known, self.node if info.node_name else None)
        others = [self._facts(other) for name, other in self.pods.items() if name != self.names.driver_pod]
        return View(
            name="pi",
            namespace="team",
            uid=UID,
            generation=self.generation,
            status=self.status,
            application=read.application,
            problems=read.problems,
            digest=read.digest,
            driver=present,
            others=[facts for facts in others if not facts.proven_gone],
            last_attempt=max((attempt_of(pod) for pod in self.pods.values()), default=0),
            executors=executor_facts(self.executors, self.status.executors.ever_started),
            job=self.jobs.get(info.pod_uid),
            volumes=self.volumes,
            status_problem=self.status_problem,
            submission_error="",
            deleted_at=self.deleted_at,
            now=self.now,
        )

    def _facts(self, pod: dict[str, Any]) -> DriverFacts:
        return driver_facts(pod, self.node)

    def look(self) -> Decision:
        view = self.view()
        decision = decide(view)
        self._do(decision)
        if self.refusal and any(isinstance(step, Submit) for step in decision.steps):
            decision = decide(replace(view, status=self.status, submission_error=self.refusal))
            self._do(decision)
        return decision

    def settle(self, most: int = 20) -> Decision:
        """Look until nothing changes."""
        for _ in range(most):
            before = (self.status, sorted(self.pods))
            decision = self.look()
            if (self.status, sorted(self.pods)) == before:
                return decision
        raise AssertionError(f"never settles: {self.status.transitions}")

    def _do(self, decision: Decision) -> None:
        self.status = ApplicationStatus.model_validate(
            decision.status.model_dump(mode="json", by_alias=True), strict=False
        )
        self.status_problem = ""
        self.said += [(one.type, one.reason, one.message) for one in decision.events]
        for step in decision.steps:
            if isinstance(step, Submit) and not self.refusal:
                self._make(self.names.driver_pod)
                self._replace_volumes()
            elif isinstance(step, DeleteDriver):
                self._delete(step)
            elif isinstance(step, CleanUp):
                self.cleaned.append(step.attempt)
            elif isinstance(step, ForgetDrivers):
                self.pods = {name: pod for name, pod in self.pods.items() if attempt_of(pod) > step.attempt}
            elif isinstance(step, DropStore):
                self._drop_volumes(step)
            elif isinstance(step, ReleaseFinalizer):
                self.is_released = True
            elif isinstance(step, DeleteApplication):
                self.is_expired = True

    def _replace_volumes(self) -> None:
        """What is gone is made anew, empty."""
        if self.volumes is not None:
            anew = {one.number: f"made-for-{self.status.attempt}" for one in (*self.volumes.lost, *self.volumes.going)}
            self.volumes = VolumeFacts(there={**self.volumes.there, **anew})

    def _drop_volumes(self, step: DropStore) -> None:
        """They go when no pod is left."""
        assert self.volumes is not None
        assert step.claims == self.volumes.own
        numbers = [*self.volumes.there, *(one.number for one in (*self.volumes.going, *self.volumes.lost))]
        gone = tuple(GoneVolume(f"claim-{number}", number, "was deleted") for number in numbers)
        self.volumes = VolumeFacts(going=gone, own=step.claims) if self.pods else VolumeFacts(lost=gone)

    def _make(self, name: str) -> None:
        if name not in self.pods:
            self.pods[name] = driver(name)
            self.pods[name]["metadata"] |= {
                "creationTimestamp": format_time(self.now),
                "labels": self.names.labels,
            }
            if self.node is None:  # not scheduled
                self.pods[name]["spec"] = {}

    def _delete(self, step: DeleteDriver) -> None:
        """A kubelet that answers ends the pod; one that does not leaves it terminating."""
        pod = self.pods.get(step.pod_name)
        if pod is None or pod["metadata"]["uid"] != step.pod_uid:
            return
        if step.at_once or self._answers():
            del self.pods[step.pod_name]
            if self.node is not None and not self._answers() and pod["spec"].get("nodeName"):
                self.ghosts.add(step.pod_uid)
        else:
            pod["metadata"]["deletionTimestamp"] = format_time(self.now)
