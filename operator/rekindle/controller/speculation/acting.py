"""Takes the steps of `plan`, and says what came of each: an event, a log line, a count."""

import time

from rekindle.controller.affinity import HOSTNAME
from rekindle.controller.blocks.requests import BlockRequests
from rekindle.controller.decision import Said
from rekindle.controller.event_recorder import EventRecorder
from rekindle.controller.informer import Informer
from rekindle.controller.kube import Gone, Kube, Refused
from rekindle.controller.metrics import Metrics
from rekindle.controller.resources import Key, labels_of
from rekindle.controller.speculation.clone import next_ids
from rekindle.controller.speculation.followed import Followed, say
from rekindle.controller.speculation.levers import ExecutorLevers, Outcome
from rekindle.controller.speculation.plan import AskForBlock, Drain, Duplicate, Remove, Step

DUPLICATE = "duplicate"
"""The name of the step that makes duplicates."""


class Acting:
    """Asks for blocks, and drains and duplicates executors."""

    def __init__(
        self, kube: Kube, nodes: Informer, requests: BlockRequests, events: EventRecorder, metrics: Metrics
    ) -> None:
        self._levers, self._nodes, self._requests = ExecutorLevers(kube), nodes, requests
        self._events, self._metrics = events, metrics

    async def take(self, followed: Followed, step: Step) -> None:
        """Take a step, unless it was just taken or refused; one that is refused keeps no other from being taken."""
        name = name_of(step)
        if not followed.memory.may_take(name):
            return
        done, refused = _reasons(step)
        try:
            outcome = await self._outcome(followed, step)
        except (Refused, Gone, ValueError) as error:
            outcome = Outcome(False, f"{name}: {error}")
        if outcome is not None:
            self._tell(followed, name, outcome, done, refused)

    async def undo(self, followed: Followed) -> None:
        """The driver has ended while duplicates were made for it."""
        await self._levers.remove_all(followed.driver)

    async def _outcome(self, followed: Followed, step: Step) -> Outcome | None:
        """None where nothing is to be said."""
        if isinstance(step, AskForBlock):
            await self._ask(followed, step)
            return None
        if isinstance(step, Duplicate):
            return await self._duplicate(followed, step)
        followed.memory.made.pop(step.executor.id, None)
        at_once = isinstance(step, Drain) and step.at_once
        return await self._levers.drain(followed.namespace, step.executor, at_once=at_once)

    async def _ask(self, followed: Followed, step: AskForBlock) -> None:
        settings = followed.settings
        share = settings.to_core().blocklist.max_blocked_share
        if (refusal := self._requests.refusal(followed.namespace, step.node, share)) is not None:
            message = f"{step.node} is not blocked: {refusal}; {step.cause}"
            said = Said("Warning", "NodeBlockRefused", message)
            say(self._events, followed, step.node, said, once=refusal)
            return
        is_new = await self._requests.ask(
            followed.name,
            step.node,
            min(step.seconds, settings.speculation.block_slow_node_duration),
            step.cause,
            remove_when_done=settings.blocklist.remove_when_done,
        )
        if is_new:
            followed.memory.told.pop(step.node, None)
            said = Said("Warning", "SlowNode", f"{step.node} is to be blocked: {step.cause}")
            say(self._events, followed, step.node, said)
            self._metrics.speculation_steps.labels("SlowNode").inc()

    async def _duplicate(self, followed: Followed, step: Duplicate) -> Outcome:
        """As many as are missing by the API: the copy of the pods may be old."""
        there = await self._levers.live_duplicates(followed.driver)
        known = sum(1 for one in followed.executors if one.is_duplicate and one.is_live)
        missing = step.count - max(0, len(there) - known)
        if missing <= 0:
            return Outcome(True)
        ids = next_ids([one.id for one in (*followed.executors, *there)], missing, followed.driver_age)
        return await self._levers.duplicate(followed.namespace, step.original, ids, self._hosts(step.avoid))

    def _tell(self, followed: Followed, name: str, outcome: Outcome, done: str, refused: str) -> None:
        followed.memory.took(name, done=outcome.done)
        followed.memory.made |= dict.fromkeys(outcome.made, time.monotonic())
        if not outcome.message:
            return
        reason = done if outcome.done else refused
        self._metrics.speculation_steps.labels(reason).inc()
        type_ = "Normal" if outcome.done else "Warning"
        say(self._events, followed, name, Said(type_, reason, outcome.message))

    def _hosts(self, nodes: frozenset[str]) -> frozenset[str]:
        """The labels by which pods avoid nodes."""
        found = (self._nodes.get(Key("", name)) for name in nodes)
        hosts = (labels_of(node).get(HOSTNAME) for node in found if node is not None)
        return frozenset(host for host in hosts if host)


def name_of(step: Step) -> str:
    """What the step is about, in words."""
    if isinstance(step, AskForBlock):
        return f"block {step.node}"
    if isinstance(step, Duplicate):
        return DUPLICATE
    return f"end {step.executor.pod}" if isinstance(step, Drain) and step.at_once else f"drain {step.executor.pod}"


def _reasons(step: Step) -> tuple[str, str]:
    """Where it is done, and where it is refused."""
    if isinstance(step, AskForBlock):
        return "SlowNode", "NodeBlockRefused"
    if isinstance(step, Duplicate):
        return "DuplicateExecutorsMade", "DuplicateExecutorsRefused"
    return "DuplicateExecutorRemoved" if isinstance(step, Remove) else "ExecutorDrained", "ExecutorNotDrained"
