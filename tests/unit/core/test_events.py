"""Events as records of a journal, and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.core import events as ev
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID, ResultPartitionID
from rekindle.core.job_graph import DistributionPattern, JobEdge, JobGraph, JobVertex, ResultKind
from rekindle.core.options import BlocklistOptions, FailoverOptions, FailoverStrategyKind, SpeculationOptions

names = st.text(min_size=1, max_size=8)
subtasks = st.integers(0, 10**6)
times = st.floats(allow_nan=False)
vertices = st.builds(ExecutionVertexID, names, subtasks)
attempts = st.builds(ExecutionAttemptID, vertices, subtasks)
partitions = st.builds(ResultPartitionID, names, subtasks)
causes = st.builds(ev.FailureCause, st.sampled_from(ev.FailureKind), names, st.none() | partitions)
outputs = st.builds(ev.PartitionOutput, subtasks, subtasks, st.none() | names, st.none() | names)
slow = st.tuples(vertices, st.lists(attempts, max_size=3).map(tuple), names)
speculation = st.builds(SpeculationOptions, st.booleans(), st.integers(1, 9), st.floats(0, 1e6))
failover = st.builds(FailoverOptions, st.sampled_from(FailoverStrategyKind), subtasks, st.none() | subtasks)
flag = st.booleans()
vertex = st.builds(JobVertex, names, st.integers(1, 9), flag, st.none() | flag, flag, flag)
some_vertices = st.lists(vertex, min_size=2, max_size=4, unique_by=lambda one: one.name)
kind, pattern = st.sampled_from(ResultKind), st.sampled_from(DistributionPattern)
graphs = st.builds(
    lambda some, *how: JobGraph("", tuple(some), (JobEdge(some[0].name, some[1].name, *how),)),
    some_vertices,
    kind,
    pattern,
)
blocklist = st.builds(BlocklistOptions, st.fractions(0, 1))

EVENTS = {
    ev.JobSubmitted: st.builds(ev.JobSubmitted),
    ev.OptionsGiven: st.builds(ev.OptionsGiven, speculation, failover, blocklist, st.lists(names).map(tuple)),
    ev.JobGraphChanged: st.builds(ev.JobGraphChanged.to, graphs),
    ev.NodesChanged: st.builds(ev.NodesChanged, st.lists(names).map(tuple)),
    ev.AttemptDeployed: st.builds(ev.AttemptDeployed, attempts, names, times, st.none() | st.integers(0)),
    ev.AttemptFinished: st.builds(ev.AttemptFinished, attempts, times, outputs),
    ev.AttemptFailed: st.builds(ev.AttemptFailed, attempts, causes),
    ev.AttemptCanceled: st.builds(ev.AttemptCanceled, attempts),
    ev.PartitionsLost: st.builds(ev.PartitionsLost, st.lists(partitions).map(tuple), names),
    ev.NodeLost: st.builds(ev.NodeLost, names, names),
    ev.DriverLost: st.builds(ev.DriverLost, names),
    ev.SlowTasksFound: st.builds(ev.SlowTasksFound, st.lists(slow, max_size=3).map(tuple)),
    ev.NodeBlockRequested: st.builds(ev.NodeBlockRequested, names, times, names),
    ev.NodeUnblockRequested: st.builds(ev.NodeUnblockRequested, names, names),
    ev.RerunRequested: st.builds(ev.RerunRequested, st.text(), st.text()),
    ev.Tick: st.builds(ev.Tick),
}


def test_no_event_is_left_out():
    assert set(EVENTS) == set(ev.EVENT_TYPES.values())


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_an_event_survives_a_journal(kind, data):
    event = data.draw(EVENTS[kind])
    line = json.dumps(ev.to_record(event), allow_nan=False)
    assert ev.from_record(json.loads(line)) == event


def test_a_record_is_readable():
    attempt = ExecutionAttemptID(ExecutionVertexID("delays", 3), 1)
    lost = ev.FailureCause(ev.FailureKind.PARTITION, "gone", ResultPartitionID("flights", 0))
    assert ev.to_record(ev.AttemptFailed(attempt, lost)) == {
        "type": "AttemptFailed",
        "attempt": "delays[3]#1",
        "cause": {"kind": "PARTITION", "message": "gone", "partition": "flights/0"},
    }


OPTIONS = ev.to_record(ev.OptionsGiven(SpeculationOptions(), FailoverOptions(), BlocklistOptions(), ()))
DEPLOYED = {"type": "AttemptDeployed", "attempt": "a[0]#0", "node": "n", "started_at": 1.0, "input_bytes": None}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"type": "Rapture"}, "unknown event 'Rapture'; this version knows JobSubmitted, OptionsGiven, "),
        ({}, "unknown event None"),
        ({"type": ["Tick"]}, "unknown event"),
        ([], "must be an object"),
        ({"type": "Tick", "extra": 1}, "Tick: expected the fields"),
        ({"type": "NodeLost", "node": "n1"}, "NodeLost: expected the fields"),
        ({"type": "NodeLost", "node": 1, "reason": ""}, "NodeLost.node: expected str"),
        ({"type": "NodesChanged", "nodes": "n1"}, "NodesChanged.nodes: expected list"),
        ({"type": "NodesChanged", "nodes": [None]}, r"NodesChanged.nodes\[0\]: expected str"),
        ({"type": "AttemptCanceled", "attempt": "delays[3]"}, "'delays\\[3\\]' is no id"),
        ({"type": "AttemptCanceled", "attempt": 3}, "AttemptCanceled.attempt: expected str"),
        ({**DEPLOYED, "started_at": "soon"}, "AttemptDeployed.started_at: expected a number"),
        ({**DEPLOYED, "started_at": True}, "AttemptDeployed.started_at: expected a number"),
        ({**DEPLOYED, "input_bytes": 1.5}, "AttemptDeployed.input_bytes: expected int"),
        ({**OPTIONS, "blocklist": {"max_blocked_share": 1}}, "OptionsGiven.blocklist.max_blocked_share: expected str"),
        ({"type": "NodeBlockRequested", "node": "n", "until": float("nan"), "cause": ""}, "expected a number"),
        ({"type": "SlowTasksFound", "slow": [["a[0]", []]]}, "expected 3 items, found 2"),
        ({"type": "SlowTasksFound", "slow": [["a[0]", [], 5]]}, r"SlowTasksFound.slow\[0\]\[2\]: expected str"),
        ({"type": "AttemptFailed", "attempt": "a[0]#0", "cause": "bad luck"}, "AttemptFailed.cause: expected dict"),
        (
            {"type": "AttemptFailed", "attempt": "a[0]#0", "cause": {"kind": "BAD", "message": "", "partition": None}},
            "'BAD' is not a valid FailureKind",
        ),
        (
            {"type": "AttemptFinished", "attempt": "a[0]#0", "finished_at": 1,
             "output": {"rows": True, "bytes": 1, "digest": None, "node": None}},
            "output.rows: expected int",
        ),
    ],
)  # fmt: skip
def test_a_record_that_is_no_event_is_refused(record, message):
    with pytest.raises(ValueError, match=message):
        ev.from_record(record)


@pytest.mark.parametrize("kind", [ExecutionVertexID, ExecutionAttemptID, ResultPartitionID])
@pytest.mark.parametrize("text", ["", "a", "a[x]", "[3]", "a[3]#", "/3", "a/", "a[-1]", "a/-1"])
def test_a_text_that_is_no_id_is_refused(kind, text):
    with pytest.raises(ValueError, match="is no id"):
        kind.parse(text)


def test_ids_as_text():
    vertex = ExecutionVertexID("delays.map", 3)
    assert (str(vertex), str(ExecutionAttemptID(vertex, 1))) == ("delays.map[3]", "delays.map[3]#1")
    assert str(ResultPartitionID("delays", 3)) == "delays/3"
