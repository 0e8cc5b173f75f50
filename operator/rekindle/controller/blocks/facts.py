"""What NodeBlocks and Nodes say, as a decision takes it."""

from dataclasses import dataclass

from pydantic import ValidationError

from rekindle.api.model import problems
from rekindle.api.node_block import NodeBlock, NodeBlockStatus
from rekindle.controller.blocks.marks import BLOCKED, is_marked, taints_of
from rekindle.controller.clock import parse_time
from rekindle.controller.resources import Object, condition_of, labels_of
from rekindle.controller.submission.names import LABEL_MANAGED

_MIN_YEAR, _MAX_YEAR = 1900, 9999
_REPELLENT = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class RequestedBlock:
    """A NodeBlock as it is stored. Times are epoch seconds."""

    body: Object
    node: str
    begins: float | None
    """None: at once, whatever the clock says of when it was made."""

    start: float
    """For the order of blocks."""

    end: float
    cause: str
    evacuate: bool
    applications: tuple[str, ...]
    remove_when_done: bool
    is_ours: bool
    """The operator made it; a person's is not deleted when it is over."""

    status: NodeBlockStatus

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class UnreadableBlock:
    """A NodeBlock that cannot be used, and why: it was stored under another definition."""

    body: Object
    problem: str
    status: NodeBlockStatus


def read_block(body: Object) -> RequestedBlock | UnreadableBlock:
    """A stored NodeBlock."""
    try:
        status = NodeBlockStatus.model_validate(body.get("status") or {}, strict=False, by_alias=True)
    except ValidationError:
        status = NodeBlockStatus()
    document = {name: body.get(name) for name in ("apiVersion", "kind", "metadata", "spec")}
    try:
        spec = NodeBlock.model_validate(document, by_alias=True, by_name=False).spec
    except ValidationError as error:
        return UnreadableBlock(body, "; ".join(str(one) for one in problems(error, NodeBlock)), status)
    if not all(_MIN_YEAR < moment.year < _MAX_YEAR for moment in (spec.start, spec.end) if moment is not None):
        return UnreadableBlock(body, f"spec.start and spec.end are from year {_MIN_YEAR} to {_MAX_YEAR}", status)
    created = parse_time(body["metadata"]["creationTimestamp"])
    return RequestedBlock(
        body=body,
        node=spec.node,
        begins=None if spec.start is None else spec.start.timestamp(),
        start=created if spec.start is None else spec.start.timestamp(),
        end=spec.end.timestamp(),
        cause=spec.cause,
        evacuate=spec.action == "MarkBlockedAndEvacuateTasks",
        applications=tuple(spec.applications),
        remove_when_done=spec.remove_when_done,
        is_ours=labels_of(body).get(LABEL_MANAGED) == "true",
        status=status,
    )


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """One Node."""

    body: Object
    name: str
    takes_pods: bool
    """It is ready, not cordoned, and no taint of somebody else keeps ordinary pods off."""

    is_marked: bool


def node_facts(node: Object) -> NodeFacts:
    """What matters of a Node to who blocks nodes."""
    repelled = any(taint.get("effect") in _REPELLENT and taint.get("key") != BLOCKED for taint in taints_of(node))
    is_ready = condition_of(node, "Ready").get("status") == "True"
    takes_pods = is_ready and not node["spec"].get("unschedulable") and not repelled
    return NodeFacts(node, str(node["metadata"]["name"]), takes_pods, is_marked(node))
