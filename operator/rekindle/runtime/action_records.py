"""What the journal's readers are told of the core's actions; no driver replays it."""

from __future__ import annotations

from rekindle.core import actions as act
from rekindle.runtime.journal import Record


def told(action: act.Action, now: float) -> Record | None:
    """The record of an action, None where it follows from events: deployments and cancellations are many."""
    fields = _fields(action)
    return {"t": now, "kind": "action", **fields} if fields is not None else None


def _fields(action: act.Action) -> Record | None:
    match action:
        case act.Restart(vertices=vertices, cause=cause, reused=reused):
            restarted = [[one.vertex, one.subtask] for one in vertices]
            return {"action": "Restart", "vertices": restarted, "cause": cause, "reused": reused}
        case act.Block(node=node, until=until, cause=cause):
            return {"action": "Block", "node": node, "until": until, "cause": cause}
        case act.Unblock(node=node, reason=reason) | act.BlockRefused(node=node, reason=reason):
            return {"action": type(action).__name__, "node": node, "reason": reason}
        case act.Deploy(deployments=deployments):
            copies = [
                [one.attempt.vertex_id.vertex, one.attempt.vertex_id.subtask, one.attempt.attempt]
                for one in deployments
                if one.speculative
            ]
            return {"action": "Speculate", "attempts": copies} if copies else None
        case act.Spare(vertices=vertices, reason=reason):
            return {"action": "Spare", "vertices": [[one.vertex, one.subtask] for one in vertices], "reason": reason}
        case act.Release(vertex=vertex):
            return {"action": "Release", "stage": vertex}
        case act.Fail(cause=cause):
            return {"action": "Fail", "cause": cause}
        case _:
            return None
