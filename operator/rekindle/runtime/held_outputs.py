"""Copies that should have ended by now: do they wait for map outputs?

An executor that holds some and does not answer is killed, and they are lost (the EPHEMERAL rule). One
that answers, on a blocked node, is decommissioned: it hands its map outputs to others, then ends. Where
some do not answer, they explain the wait, and the others are left alone.
"""

from __future__ import annotations

import math

from rekindle.core import events as ev
from rekindle.runtime.state import RunState

_ANSWER_SECONDS = 5.0
_ASK_AGAIN_SECONDS = 30.0


class HeldMapOutputs:
    """Those that copies of one run wait for."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._ask_again_at: dict[str, float] = {}

    def free(self, found: ev.SlowTasksFound, now: float) -> None:
        """Give up executors that copies of these slow tasks wait for."""
        patience = self._state.settings.speculation.baseline_lower_bound
        slow = {(vertex.vertex, vertex.subtask) for vertex, _, _ in found.slow}
        for name in sorted({name for name, _ in slow}):
            run = self._state.runs.get(name)
            late = [copy for copy in run.copies if now - copy.submitted_at >= patience] if run else []
            if run is not None and any((name, copy.partition) in slow for copy in late):
                self._free(name, run.map_side.holders(), now)

    def _free(self, stage: str, holders: set[str], now: float) -> None:
        due = [one for one in sorted(holders) if now >= self._ask_again_at.get(one, 0.0)]
        self._ask_again_at |= dict.fromkeys(due, now + _ASK_AGAIN_SECONDS)
        silent = self._state.scheduler.silent(due, _ANSWER_SECONDS)
        blocked = self._state.core.blocked_nodes(now)
        reason = f"it holds map outputs that a copy of stage {stage} waits for"
        for executor in due:
            node = self._state.executors.get(executor)
            if executor in silent:
                self._state.scheduler.kill_executor(executor)
                how, why = "killed", f"{reason}, and does not answer"
            elif not silent and node in blocked and self._state.scheduler.decommission(executor, reason):
                self._ask_again_at[executor] = math.inf
                how, why = "decommissioned", reason
            else:
                continue
            self._state.note("ExecutorGivenUp", executor=executor, node=node, stage=stage, how=how, reason=why)
