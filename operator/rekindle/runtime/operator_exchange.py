"""The job master's side of the exchange: the operator's blocks become events, its own blocks become wishes.

What the operator tells is the state it wants, not what has changed, so that nothing is lost with a message; it is held
up against what the core has blocked at each look. Blocks end by themselves where the operator is heard no more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from rekindle.api.connector_report import CommitState
from rekindle.api.job_report import JobReport, job_report, too_large
from rekindle.api.operator_exchange import (
    MOST_CAUSE,
    ExchangeAnswer,
    ExchangeRequest,
    WireBlock,
    Wish,
    encode,
    wished,
)
from rekindle.core import events as ev
from rekindle.core.split_progress import SplitCounts
from rekindle.runtime.connector_facts import sink_facts, source_facts
from rekindle.runtime.exchange_endpoint import ExchangeEndpoint, endpoint_of_environment
from rekindle.runtime.state import RunState

_REPORT_SECONDS, _REPORT_SHARE = 2.0, 0.02


class OperatorExchange:
    """Of one run. All but the endpoint is of the job master's thread. `counts`: how far sources have been read."""

    def __init__(self, state: RunState, counts: Callable[[], Mapping[str, SplitCounts]]) -> None:
        self._state, self._counts = state, counts
        self._endpoint: ExchangeEndpoint | None = None
        self._excludes, self._taken_up = False, 0
        self._asked: dict[str, float] = asked_for(event for event, _ in state.open_run.facts.events)
        self._refused: dict[str, tuple[float, frozenset[str]]] = {}
        self._told: ExchangeAnswer | None = None
        self._encoded = b""
        self._report: JobReport | None = None
        self._reported: object = (0, None, {}, {})
        self._report_at = 0.0
        self._committed: dict[str, tuple[CommitState, str]] = {}

    def begin(self) -> None:
        """Serve, if the operator has asked for it. Without it the run is the same, but hears of no blocks."""
        try:
            self._endpoint = endpoint_of_environment(self._state.wake.set)
        except (OSError, ValueError) as error:
            self._state.note("ExchangeNotServed", reason=str(error))
        if self._endpoint is not None:
            self._excludes = self._state.scheduler.can_exclude()

    def end(self) -> None:
        """Free the port."""
        if self._endpoint is not None:
            self._endpoint.close()

    def learn_nodes(self) -> None:
        """Take the operator's word for where executors are: Spark's is a pod's address."""
        if self._endpoint is not None and self._endpoint.request is not None:
            self._state.scheduler.nodes = self._endpoint.request.nodes

    def see_blocks(self, now: float) -> None:
        """Tell the core what the operator wants of nodes on which there are executors."""
        if self._endpoint is None or self._endpoint.request is None:
            return
        request = self._endpoint.request
        self._taken_up = request.number
        listed = _latest(request)
        self._see_ended(listed, now)
        nodes = frozenset(self._state.executors.values())
        self._refused = {node: why for node, why in self._refused.items() if node in listed}
        for block in listed.values():
            if block.node in nodes and block.end > now:
                self._see_asked(block, nodes, now)

    def _see_ended(self, listed: dict[str, WireBlock], now: float) -> None:
        """Blocks that were to last longer. One that has come to its end the core has ended itself."""
        for node, until in list(self._asked.items()):
            end = listed[node].end if node in listed else 0.0
            if end >= until:
                continue
            del self._asked[node]
            if until > now and node in self._state.core.blocked_nodes(now):
                self._state.see(ev.NodeUnblockRequested(node, "the operator has ended its block"), now)

    def _see_asked(self, block: WireBlock, nodes: frozenset[str], now: float) -> None:
        """Once, and again when the core refused and there are other nodes."""
        if self._asked.get(block.node) == block.end or self._refused.get(block.node) == (block.end, nodes):
            return
        self._state.see(ev.NodeBlockRequested(block.node, block.end, block.cause), now)
        if block.node in self._state.core.blocked_nodes(now):
            self._asked[block.node] = block.end
        else:
            self._refused[block.node] = (block.end, nodes)

    def tell(self, now: float) -> None:
        """Prepare the answer: blocks of its own, as far as they go beyond what the operator has asked for."""
        if self._endpoint is None:
            return
        wishes = [
            Wish(node=self._state.scheduler.node_of(node), seconds=block.end - now, cause=block.cause[:MOST_CAUSE])
            for node, block in self._state.core.blocked_nodes(now).items()
            if block.end > self._asked.get(node, 0.0)
        ]
        answer = wished(wishes, excludes=self._excludes, number=self._taken_up, job=self._job())
        if answer != self._told:
            self._told, self._encoded = answer, encode(answer)
        self._endpoint.answer = self._encoded

    def _job(self) -> JobReport | None:
        """The job as it is: worked out again where there is something new, and for a small part of the time only. What
        becomes of a sink is told at once: it may be the last that this driver tells."""
        state, commits = self._state, dict(self._state.commits)
        is_due = time.monotonic() >= self._report_at or commits != self._committed
        if not is_due or too_large(state.core.job_graph) is not None:
            return self._report
        began, core, counts = time.monotonic(), state.core, self._counts()
        now_seen = (state.seen, state.first_task_at, counts, commits)
        is_new = now_seen != self._reported
        if is_new:
            self._reported, self._committed = now_seen, commits
            self._report = job_report(
                core.job_graph,
                core.inventory(),
                core.typical_seconds(),
                state.resumed,
                state.first_task_at,
                source_facts(state, counts),
                sink_facts(state),
            )
        took = time.monotonic() - began
        least = _REPORT_SECONDS if is_new else 0.0
        self._report_at = began + max(least, took / _REPORT_SHARE)
        return self._report


def asked_for(events: Iterable[ev.Event]) -> dict[str, float]:
    """What an earlier driver was asked to block: [node -> until]."""
    asked: dict[str, float] = {}
    for event in events:
        if isinstance(event, ev.NodeBlockRequested):
            asked[event.node] = event.until
        elif isinstance(event, ev.NodeUnblockRequested):
            asked.pop(event.node, None)
    return asked


def _latest(request: ExchangeRequest) -> dict[str, WireBlock]:
    """[node -> its block that ends last]"""
    return {block.node: block for block in sorted(request.blocks, key=lambda one: one.end)}
