"""Takes the steps of `plan`, and says what came of each: an event, a log line, a count."""

from rekindle.controller.blocks.requests import BlockRequests
from rekindle.controller.decision import Said
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.informer import Informer
from rekindle.controller.kube import Kube
from rekindle.controller.metrics import Metrics
from rekindle.controller.resources import Key, labels_of
from rekindle.controller.speculation.clone import next_ids
from rekindle.controller.speculation.followed import Followed, say
from rekindle.controller.speculation.levers import ExecutorLevers, Outcome
from rekindle.controller.speculation.plan import AskForBlock, Drain, Duplicate, Remove, Step

_HOST = "kubernetes.io/hostname"


class Acting:
    """Asks for blocks, and drains and duplicates executors."""

    def __init__(
        self, kube: Kube, nodes: Informer, requests: BlockRequests, events: EventRecorder, metrics: Metrics
    ) -> None:
        self._levers, self._nodes, self._requests = ExecutorLevers(kube), nodes, requests
        self._events, self._metrics = events, metrics

    async def take(self, followed: Followed, step: Step) -> None:
        """Take a step, unless it was just taken or refused."""
        name = _name_of(step)
        if not followed.memory.may_take(name):
            return
        if isinstance(step, AskForBlock):
            await self._ask(followed, step)
        elif isinstance(step, Duplicate):
            outcome = await self._duplicate(followed, step)
            self._tell(followed, name, outcome, "DuplicateExecutorsMade", "DuplicateExecutorsRefused")
        else:
            at_once = isinstance(step, Drain) and step.at_once
            outcome = await self._levers.drain(followed.namespace, step.executor, at_once=at_once)
            done = "DuplicateExecutorRemoved" if isinstance(step, Remove) else "ExecutorDrained"
            self._tell(followed, name, outcome, done, "ExecutorNotDrained")

    async def _ask(self, followed: Followed, step: AskForBlock) -> None:
        settings = followed.application.spec.settings()
        share = settings.to_core().blocklist.max_blocked_share
        if (refusal := self._requests.refusal(followed.namespace, step.node, share)) is not None:
            message = f"{step.node} is not blocked: {refusal}; {step.cause}"
            said = Said("Warning", "NodeBlockRefused", message)
            say(self._events, followed, step.node, said, once=refusal)
            return
        is_new = await self._requests.ask(
            followed.name,
            step.node,
            settings.speculation.block_slow_node_duration,
            step.cause,
            remove_when_done=settings.blocklist.remove_when_done,
        )
        if is_new:
            followed.memory.told.pop(step.node, None)
            said = Said("Warning", "SlowNode", f"{step.node} is to be blocked: {step.cause}")
            say(self._events, followed, step.node, said)
            self._metrics.speculation_steps.labels("SlowNode").inc()

    async def _duplicate(self, followed: Followed, step: Duplicate) -> Outcome:
        ids = next_ids([one.id for one in followed.executors], step.count, followed.driver_age)
        return await self._levers.duplicate(followed.namespace, step.original, ids, self._hosts(step.avoid))

    def _tell(self, followed: Followed, name: str, outcome: Outcome, done: str, refused: str) -> None:
        followed.memory.took(name, done=outcome.done)
        reason = done if outcome.done else refused
        self._metrics.speculation_steps.labels(reason).inc()
        type_ = "Normal" if outcome.done else "Warning"
        say(self._events, followed, name, Said(type_, reason, outcome.message))

    def _hosts(self, nodes: frozenset[str]) -> frozenset[str]:
        """The labels by which pods avoid nodes."""
        found = (self._nodes.get(Key("", name)) for name in nodes)
        hosts = (labels_of(node).get(_HOST) for node in found if node is not None)
        return frozenset(host for host in hosts if host)


def _name_of(step: Step) -> str:
    if isinstance(step, AskForBlock):
        return f"block {step.node}"
    if isinstance(step, Duplicate):
        return "duplicate"
    return f"drain {step.executor.pod}"
