"""Events about sinks: that one was committed, or was not and why."""

from collections.abc import Sequence

from rekindle.api.application_status import SinkStatus
from rekindle.api.connector_report import CommitState
from rekindle.controller.decision import Decision


def saying_sinks(before: Sequence[SinkStatus], decision: Decision) -> Decision:
    """With an event for each sink that has come to an end, or has not and will not under this driver."""
    known = {sink.name: sink.commit for sink in before}
    for sink in decision.status.sinks:
        if sink.commit == known.get(sink.name):
            continue
        if sink.commit == CommitState.COMMITTED:
            decision = decision.saying("Normal", "SinkCommitted", f"sink {sink.name}: its result can be seen")
        elif sink.commit in (CommitState.REFUSED, CommitState.FAILED):
            what = f"sink {sink.name}: its commit was {_HOW[sink.commit]}: {sink.commit_reason or 'no reason is told'}"
            decision = decision.saying("Warning", "SinkNotCommitted", what)
    return decision


_HOW = {CommitState.REFUSED.value: "refused", CommitState.FAILED.value: "begun and has failed"}
