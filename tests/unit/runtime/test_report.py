"""The report is folded from the journal: attempts, copies, restarts, digests."""

from __future__ import annotations

import json
from importlib.resources import files

import jsonschema
import pytest

from rekindle.core import events as ev
from rekindle.core.ids import ExecutionAttemptID, ExecutionVertexID
from rekindle.runtime.journal import note
from rekindle.runtime.report import ReportFold


def attempt(partition: int, number: int = 0) -> ExecutionAttemptID:
    return ExecutionAttemptID(ExecutionVertexID("s", partition), number)


def event(t: float, what: ev.Event) -> dict:
    return {"t": t, "kind": "event", "event": ev.to_record(what)}


def finished(t: float, partition: int, number: int = 0, digest: str | None = "1-1-2") -> dict:
    return event(t, ev.AttemptFinished(attempt(partition, number), t, ev.PartitionOutput(1, 10, digest, "n")))


def deployed(t: float, partition: int, number: int = 0) -> dict:
    return event(t, ev.AttemptDeployed(attempt(partition, number), "n", t))


START = [
    note(0.0, "RunStarted", application="a", run=1, fingerprints={},
         stages=[{"name": "s", "partitions": 2, "exchange": "blocking", "sink": None},
                 {"name": "fused", "partitions": 2, "exchange": "pipelined", "sink": None}]),
    note(0.0, "DriverStarted", attempt=1, writer="w"),
    note(1.0, "StageStarted", stage="s", partitions=2),
]  # fmt: skip


def report(*records: dict) -> dict:
    fold = ReportFold()
    for record in [*START, *records]:
        fold.add(record)
    made = fold.report()
    schema = json.loads(files("rekindle.runtime").joinpath("report.schema.json").read_text())
    jsonschema.validate(made, schema)
    return made


def test_a_stage_is_finished_with_its_last_partition_and_its_digest_is_the_sum():
    half = report(deployed(1, 0), finished(2, 0))["stages"]
    assert [(stage["name"], stage["state"], stage["digest"]) for stage in half] == [("s", "running", None)]
    whole = report(
        deployed(1, 0), finished(2, 0), deployed(1, 1), finished(3, 1), note(3.0, "StageFinished", stage="s")
    )
    (stage,) = whole["stages"]
    assert (stage["state"], stage["rows"], stage["bytes"], stage["seconds"]) == ("finished", 2, 20, 2.0)
    assert stage["digest"] == "2-0000000000000002-0000000000000004"


def test_one_partition_without_a_digest_makes_the_stage_not_comparable():
    (stage,) = report(finished(2, 0), finished(3, 1, digest=None))["stages"]
    assert stage["state"] == "finished"
    assert stage["digest"] is None


@pytest.mark.requirement("S2-41")
def test_copies_are_counted_apart_from_reruns_and_effective_when_they_win():
    copy = {"t": 2.0, "kind": "action", "action": "Speculate", "attempts": [["s", 0, 1]]}
    made = report(deployed(1, 0), copy, deployed(2, 0, 1), finished(3, 0, 1), deployed(1, 1), finished(2, 1))
    assert made["speculation"] == {"slow": 0, "launched": 1, "effective": 1}
    assert made["tasks"]["rerun"] == 0
    lost = report(deployed(1, 0), copy, deployed(2, 0, 1), finished(3, 0, 0))
    assert lost["speculation"] == {"slow": 0, "launched": 1, "effective": 0}
    restart = {"t": 4.0, "kind": "action", "action": "Restart", "vertices": [["s", 0]], "cause": "lost", "reused": 0}
    again = report(deployed(1, 0), copy, deployed(2, 0, 1), finished(3, 0, 1), restart)
    assert again["speculation"] == {"slow": 0, "launched": 1, "effective": 0}


@pytest.mark.requirement("S2-40", "S2-42")
def test_how_many_are_slow_now_falls_again():
    two = ev.SlowTasksFound(tuple((ExecutionVertexID("s", one), (), "slow") for one in (0, 1)))
    seen = [{"t": 1.0, "kind": "event", "event": ev.to_record(event)} for event in (two, ev.SlowTasksFound(()))]
    assert report(seen[0])["speculation"]["slow"] == 2
    twice = ev.SlowTasksFound(tuple((ExecutionVertexID("s", 0), (), f"n{node}") for node in (1, 2)))
    assert report({"t": 1.0, "kind": "event", "event": ev.to_record(twice)})["speculation"]["slow"] == 1
    assert report(*seen)["speculation"]["slow"] == 0
    assert report(seen[0], note(2.0, "RunFailed", error={"kind": "x"}))["speculation"]["slow"] == 0


def test_a_restart_is_told_with_what_was_reused_and_counts_as_rerun():
    restart = {"t": 3.0, "kind": "action", "action": "Restart", "vertices": [["s.map", 0], ["s", 0]],
               "cause": "the driver was lost", "reused": 1}  # fmt: skip
    made = report(deployed(1, 0), finished(2, 0), deployed(1, 1), finished(2, 1), restart, deployed(4, 0, 1))
    assert made["recoveries"] == [
        {
            "t": 3.0,
            "cause": "the driver was lost",
            "restarted": {"s.map": 1, "s": 1},
            "reused": 1,
            "savedTaskSeconds": 1.0,
        }
    ]
    assert made["stages"][0]["state"] == "running"
    assert made["tasks"]["rerun"] == 1


def test_a_failed_run_keeps_its_error_and_a_new_driver_clears_it():
    failed = note(5.0, "RunFailed", error={"kind": "pipeline-failed", "message": "x"})
    assert (report(failed)["state"], report(failed)["error"]["message"]) == ("failed", "x")
    again = report(failed, note(6.0, "DriverStarted", attempt=2, writer="w"), note(7.0, "RunFinished", stored_bytes=0))
    assert (again["state"], again["error"], again["drivers"]) == ("finished", None, 2)


def test_a_node_refused_every_second_is_told_once():
    refused = {"t": 1.0, "kind": "action", "action": "BlockRefused", "node": "n", "reason": "1 of 3"}
    assert len(report(refused, {**refused, "t": 2.0})["blocksRefused"]) == 1


def test_executors_that_were_given_up_are_listed():
    reason = "it holds map outputs that a copy of stage s waits for"
    killed = note(2.0, "ExecutorGivenUp", executor="3", node="n", stage="s", how="killed", reason=reason)
    (given_up,) = report(killed)["executorsGivenUp"]
    assert given_up == {"t": 2.0, "executor": "3", "node": "n", "stage": "s", "how": "killed", "reason": reason}


COPY = {"t": 4.0, "kind": "action", "action": "Speculate", "attempts": [["s", 0, 1]]}


@pytest.mark.parametrize("winner", [0, 1])
def test_a_copy_costs_its_time_whether_it_wins_or_not(winner):
    made = report(deployed(1, 0), COPY, deployed(4, 0, 1), finished(9, 0, winner))
    assert made["spent"] == {"copyTaskSeconds": 5.0, "rerunTaskSeconds": 0.0, "storedBytes": 10}


def test_a_recovery_saves_what_stays_and_costs_what_is_made_again():
    restart = {"t": 20.0, "kind": "action", "action": "Restart", "vertices": [["s", 1]], "cause": "lost", "reused": 1}
    made = report(
        *(deployed(1, 0), finished(8, 0), deployed(1, 1), finished(5, 1)),
        *(restart, deployed(21, 1, 1), finished(24, 1, 1)),
        {**restart, "t": 30.0, "vertices": [], "reused": 2},
    )
    assert [one["savedTaskSeconds"] for one in made["recoveries"]] == [7.0, 10.0]
    assert made["saved"] == {"taskSeconds": 17.0}
    assert made["spent"] == {"copyTaskSeconds": 0.0, "rerunTaskSeconds": 3.0, "storedBytes": 30}


def test_a_recovery_that_restarts_twice_saves_what_stays_in_the_end():
    """A driver that takes over tells at once what an edit, a lost volume and the lost driver have restarted."""
    both = [
        {"t": 20.0, "kind": "action", "action": "Restart", "vertices": [["s", one]], "cause": "lost", "reused": 1}
        for one in (0, 1)
    ]
    made = report(*(deployed(1, 0), finished(8, 0), deployed(1, 1), finished(5, 1)), *both)
    assert [one["savedTaskSeconds"] for one in made["recoveries"]] == [4.0, 0.0]
    assert made["saved"] == {"taskSeconds": 0.0}


def test_an_attempt_that_is_cut_off_by_a_restart_or_fails_costs_until_then():
    restart = {"t": 9.0, "kind": "action", "action": "Restart", "vertices": [["s", 0]], "cause": "lost", "reused": 0}
    failed = event(7.0, ev.AttemptFailed(attempt(0, 1), ev.FailureCause(ev.FailureKind.TASK, "x")))
    made = report(deployed(1, 0), deployed(2, 0, 1), failed, deployed(8, 0, 2), restart)
    assert made["spent"]["rerunTaskSeconds"] == 5.0 + 1.0


def test_what_ran_when_a_driver_was_killed_is_not_known():
    again = note(50.0, "DriverStarted", attempt=2, writer="w")
    made = report(deployed(1, 0), COPY, deployed(4, 0, 1), again, finished(60, 0, 1))
    assert made["spent"]["copyTaskSeconds"] == 0.0


def changed(t: float, stages: dict[str, int], **how: list[str]) -> dict:
    """The pipeline has these stages from now on: [name -> partitions]"""
    told = [{"name": name, "partitions": count, "exchange": "blocking", "sink": None} for name, count in stages.items()]
    named = {"again": [], "anew": [], "new": [], "gone": [], **how}
    return note(t, "PipelineChanged", application="a", run=1, fingerprints={}, stages=told, **named)


def test_what_is_kept_of_a_stage_of_an_edited_pipeline_stays_reported():
    made = report(deployed(1, 0), finished(2, 0), changed(3.0, {"s": 2, "t": 5}, new=["t"]))
    assert [(one["name"], one["partitions"], one["attempts"]) for one in made["stages"]] == [("s", 2, 1), ("t", 5, 0)]
    whole = report(finished(2, 0), finished(2, 1), changed(3.0, {"s": 2}))
    assert whole["stages"][0]["state"] == "finished"


def test_a_stage_that_an_edit_begins_anew_is_made_again():
    made = report(deployed(1, 0), finished(2, 0), deployed(1, 1), finished(2, 1), changed(3.0, {"s": 1}, anew=["s"]))
    (stage,) = made["stages"]
    assert (stage["state"], stage["partitions"], stage["rows"], stage["rerun"]) == ("running", 1, None, 0)
    again = report(
        deployed(1, 0), finished(2, 0), changed(3.0, {"s": 1}, anew=["s"]), deployed(4, 0, 1), finished(6, 0, 1)
    )
    assert (again["stages"][0]["rows"], again["tasks"]["rerun"]) == (1, 1)
    assert again["spent"]["rerunTaskSeconds"] == 2.0


def test_a_stage_that_goes_and_comes_back_is_made_again():
    made = report(
        *(deployed(1, 0), finished(2, 0)),
        changed(3.0, {"t": 1}, new=["t"], gone=["s"]),
        changed(4.0, {"t": 1, "s": 2}, new=["s"]),
        *(deployed(5, 0, 1), finished(8, 0, 1)),
    )
    assert [(one["name"], one["attempts"], one["rerun"]) for one in made["stages"]] == [("t", 0, 0), ("s", 2, 1)]
    assert (made["tasks"]["run"], made["tasks"]["rerun"]) == (2, 1)
    assert made["spent"] == {"copyTaskSeconds": 0.0, "rerunTaskSeconds": 3.0, "storedBytes": 20}


def test_what_a_stage_did_that_is_gone_was_done_all_the_same():
    made = report(deployed(1, 0), finished(2, 0), changed(3.0, {"t": 1}, new=["t"], gone=["s"]))
    assert [one["name"] for one in made["stages"]] == ["t"]
    assert (made["tasks"]["run"], made["spent"]["storedBytes"]) == (1, 10)


def opened(source: str = "f", splits: int = 9, **fields: object) -> dict:
    return note(1.0, "SourceOpened", stage="s", source=source, subtasks=2, splits=splits, settled=0, **fields)


def settled(subtask: int, *runs: tuple[int, int]) -> dict:
    return note(2.0, "SplitsSettled", stage="s", source="f", subtask=subtask, splits=runs)


def test_of_a_source_the_splits_that_are_settled_are_counted_under_all_drivers():
    (source,) = report(opened(), settled(1, (0, 2), (7, 7)), opened(), settled(0, (3, 6), (8, 8)))["sources"]
    assert source == {
        "stage": "s",
        "subtasks": 2,
        "splits": 9,
        "settled": 9,
        "most": 5,
        "fewest": 4,
        "noMoreSplits": 2,
        "reread": 0,
        "returned": 0,
        "rows": None,
    }


def test_what_was_read_again_adds_up_over_drivers():
    read = [note(3.0, "SourceRead", stage="s", source="f", reread=2, returned=1) for _ in range(2)]
    (source,) = report(opened(), read[0], opened(), read[1], finished(2, 0), finished(2, 1))["sources"]
    assert (source["reread"], source["returned"], source["rows"]) == (4, 2, 2)


def test_of_a_loop_is_shown_what_it_told_last():
    def told(activations: int, *, ended: bool) -> dict:
        one = {"loop": "s", "level": 1, "activations": activations, "waiting": 2, "spilled": 1, "attempts": 3}
        return note(2.0, "LoopProgressed", stage="s", ended=ended, scopes=[one, {**one, "loop": "s.inner", "level": 2}])

    (loop,) = report(told(4, ended=False), told(9, ended=True))["loops"]
    assert (loop["stage"], loop["ended"]) == ("s", True)
    assert [(one["loop"], one["level"], one["activations"]) for one in loop["scopes"]] == [
        ("s", 1, 9),
        ("s.inner", 2, 9),
    ]


SINK = note(
    0.0,
    "SinkOpened",
    stage="s",
    sink="FileSink",
    mode="error",
    partitions=2,
    concurrent_attempts=False,
    reason="not on",
)
COMMITTED = [
    note(4.0, "SinkPublishing", stage="s"),
    note(5.0, "SinkPublished", stage="s", path="/out", files=2),
]


def test_a_sink_is_told_with_who_wrote_it_and_how_far_its_commit_is():
    lost = event(2.0, ev.AttemptFailed(attempt(0), ev.FailureCause(ev.FailureKind.TASK, "x")))
    (pending,) = report(SINK, deployed(1, 0), lost, deployed(2, 0, 1), finished(3, 0, 1))["commits"]
    assert pending == {
        "stage": "s",
        "kind": "FileSink",
        "mode": "error",
        "concurrentAttempts": False,
        "reason": "not on",
        "partitions": 2,
        "written": 1,
        "aborted": 1,
        "state": "Pending",
        "commitReason": "",
    }


@pytest.mark.parametrize(
    ("records", "state"),
    [
        (COMMITTED[:1], ("Committing", "")),
        (COMMITTED, ("Committed", "")),
        ([*COMMITTED, SINK], ("Committed", "")),
        ([COMMITTED[0], SINK], ("Pending", "")),
        ([note(4.0, "SinkNotCommitted", stage="s", state="Refused", reason="it is there")], ("Refused", "it is there")),
        (
            [COMMITTED[0], note(4.0, "SinkNotCommitted", stage="s", state="Failed", reason="away"), SINK, *COMMITTED],
            ("Committed", ""),
        ),
    ],
    ids=["begun", "done", "done under the driver before", "cut off", "refused", "failed and then done"],
)
def test_the_last_that_is_known_of_a_commit_counts(records, state):
    (sink,) = report(SINK, *records)["commits"]
    assert (sink["state"], sink["commitReason"]) == state


def test_a_source_that_was_edited_is_another():
    (source,) = report(opened(), settled(1, (0, 2)), opened("e", splits=4))["sources"]
    assert (source["splits"], source["settled"], source["most"], source["noMoreSplits"]) == (4, 0, 0, 0)
