"""Sources and sinks of a pipeline in the status of its application, in events and metrics."""

from __future__ import annotations

from typing import Any

from rekindle.api.connector_report import WireSink, WireSource, WireSplits
from rekindle.api.job_report import JobReport, job_report
from rekindle.api.last_words import encode_last_words
from rekindle.controller.metrics import Metrics
from rekindle.controller.recovery.job_facts import facts_of
from rekindle.controller.recovery.known_jobs import KnownJobs
from rekindle.controller.recovery.planning import job_of
from rekindle.controller.resources import Key
from tests.unit.controller.recovery.test_recovering import Pipeline
from tests.unit.controller.world import SUCCEEDED, container

SOURCE: dict[str, Any] = {
    "name": "A",
    "kind": "letters",
    "subtasks": 3,
    "splits": 9,
    "assigned": 5,
    "finished": 4,
    "reread": 2,
    "returned": 1,
    "readers": 2,
    "no_more_splits": 1,
    "most": WireSplits(subtask=1, splits=3),
    "fewest": WireSplits(subtask=0, splits=1),
    "records": 40,
    "concurrent_attempts": False,
    "reason": "the stage says speculation=False",
}
SINK: dict[str, Any] = {
    "name": "B",
    "kind": "SparkSink",
    "mode": "append",
    "concurrent_attempts": True,
    "partitions": 4,
    "written": 3,
    "records": 30,
    "aborted": 2,
}


def report(world: Pipeline, **sink: Any) -> JobReport:
    source, end = WireSource(**SOURCE), WireSink(**{**SINK, **sink})
    made = job_report(world.run.job_graph, world.run.graph.inventory(), {}, sources=[source], sinks=[end])
    assert made is not None
    return made


def test_the_status_shows_what_a_driver_tells_and_keeps_the_job_apart():
    world = Pipeline()
    world.hear(report(world))
    assert [one.model_dump(by_alias=True) for one in world.status.sources] == [
        {
            "name": "A",
            "kind": "letters",
            "subtasks": 3,
            "numSplits": 9,
            "numAssignedSplits": 5,
            "numFinishedSplits": 4,
            "numRereadSplits": 2,
            "numReturnedSplits": 1,
            "registeredReaders": 2,
            "noMoreSplits": 1,
            "most": {"subtask": 1, "splits": 3},
            "fewest": {"subtask": 0, "splits": 1},
            "numRecordsIn": 40,
            "concurrentAttempts": False,
            "reason": "the stage says speculation=False",
        }
    ]
    assert [one.model_dump(by_alias=True) for one in world.status.sinks] == [
        {
            "name": "B",
            "kind": "SparkSink",
            "mode": "append",
            "concurrentAttempts": True,
            "reason": "",
            "numPartitions": 4,
            "numWrittenPartitions": 3,
            "numRecordsSend": 30,
            "numAbortedAttempts": 2,
            "commit": "Pending",
            "commitReason": "",
        }
    ]
    kept = job_of(world.status.recovery)
    assert kept is not None
    assert (kept.sources, kept.sinks) == ((), ())


def test_a_commit_is_told_once_with_what_became_of_it():
    world = Pipeline()
    for commit, reason in (("Pending", ""), ("Refused", "it is there"), ("Refused", "it is there")):
        world.hear(report(world, commit=commit, commit_reason=reason))
    assert world.messages("SinkNotCommitted") == ["sink B: its commit was refused: it is there"]
    world.hear(report(world, commit="Failed", commit_reason="the table is gone"))
    assert world.messages("SinkNotCommitted")[1:] == ["sink B: its commit was begun and has failed: the table is gone"]
    assert world.messages("SinkCommitted") == []
    world.hear(report(world, commit="Committed"))
    assert world.messages("SinkCommitted") == ["sink B: its result can be seen"]


def ended(code: int, said: str, *sinks: WireSink) -> dict[str, Any]:
    """A pod whose driver has left that."""
    left: dict[str, Any] = {"exitCode": code, "message": encode_last_words(said, sinks)}
    return {"phase": "Succeeded" if code == 0 else "Failed", "containerStatuses": container(terminated=left)}


def test_a_driver_that_ends_with_its_commit_tells_of_it_by_its_last_words():
    world = Pipeline()
    world.hear(report(world, commit="Committing", reason="its options say so"))
    last = WireSink(**{**SINK, "written": 4, "records": 40, "commit": "Committed"})
    world.driver_is(ended(0, "", last))
    world.settle()
    assert world.state() == "COMPLETED"
    (sink,) = world.status.sinks
    assert (sink.commit, sink.num_written_partitions, sink.num_records_send) == ("Committed", 4, 40)
    assert sink.reason == "its options say so"
    assert world.messages("SinkCommitted") == ["sink B: its result can be seen"]


def test_one_that_fails_in_its_commit_tells_why():
    world = Pipeline(restartPolicy={"type": "Never"})
    world.hear(report(world, commit="Committing"))
    world.driver_is(ended(1, "run-failed: the table is gone", WireSink(**SINK, commit="Failed")))
    world.settle()
    why = "the driver ended with exit code 1: run-failed: the table is gone"
    assert world.status.application_state.error_message.startswith(why)
    assert [(sink.commit, sink.commit_reason) for sink in world.status.sinks] == [("Failed", why)]
    assert world.messages("SinkNotCommitted") == [f"sink B: its commit was begun and has failed: {why}"]


def test_a_reason_that_was_told_before_stays():
    world = Pipeline(restartPolicy={"type": "Never"})
    world.hear(report(world, commit="Refused", commit_reason="it is there"))
    world.driver_is(ended(1, "misuse: it is there, and more", WireSink(**SINK, commit="Refused")))
    world.settle()
    assert [sink.commit_reason for sink in world.status.sinks] == ["it is there"]
    assert len(world.messages("SinkNotCommitted")) == 1


def test_the_next_driver_goes_on_with_them_and_a_new_job_begins_with_none():
    world = Pipeline()
    world.hear(report(world))
    world.lose_driver()
    assert [one.name for one in world.status.sinks] == ["B"]
    again = Pipeline(restartPolicy={"type": "Always"})
    again.hear(report(again))
    again.driver_is(SUCCEEDED)
    again.settle()
    again.now += 600
    again.settle()
    assert again.status.attempt == 2
    assert (again.status.sources, again.status.sinks) == ([], [])


def lines(known: KnownJobs) -> set[str]:
    metrics = Metrics()
    metrics.watch(jobs=known.all)
    found = metrics.text().decode().splitlines()
    return {one for one in found if one.startswith(("rekindle_source", "rekindle_sink"))}


def test_the_metrics_are_those_of_applications_that_run():
    world, known = Pipeline(), KnownJobs()
    known.hear(Key("team", "pi"), "driver", report(world, commit="Committing"))
    of_source, of_sink = (
        'application="pi",namespace="team",source="A"',
        'application="pi",namespace="team",sink="B"',
    )
    assert lines(known) == {
        f'rekindle_source_info{{application="pi",concurrent_attempts="false",kind="letters",{of_source[17:]}}} 1.0',
        f'rekindle_source_splits{{{of_source},state="unassigned"}} 4.0',
        f'rekindle_source_splits{{{of_source},state="assigned"}} 1.0',
        f'rekindle_source_splits{{{of_source},state="finished"}} 4.0',
        f'rekindle_source_subtasks{{{of_source},state="no_more_splits"}} 1.0',
        f'rekindle_source_subtasks{{{of_source},state="may_get_more"}} 2.0',
        f"rekindle_source_readers{{{of_source}}} 2.0",
        f"rekindle_source_most_splits{{{of_source}}} 3.0",
        f"rekindle_source_fewest_splits{{{of_source}}} 1.0",
        f"rekindle_source_records{{{of_source}}} 40.0",
        f"rekindle_source_reread_splits_total{{{of_source}}} 2.0",
        f"rekindle_source_returned_splits_total{{{of_source}}} 1.0",
        'rekindle_sink_info{application="pi",concurrent_attempts="true",kind="SparkSink",mode="append",'
        'namespace="team",sink="B"} 1.0',
        f'rekindle_sink_partitions{{{of_sink},state="written"}} 3.0',
        f'rekindle_sink_partitions{{{of_sink},state="missing"}} 1.0',
        f"rekindle_sink_records{{{of_sink}}} 30.0",
        f"rekindle_sink_aborted_attempts_total{{{of_sink}}} 2.0",
        *(
            f'rekindle_sink_commit{{{of_sink},state="{state}"}} {float(state == "committing")}'
            for state in ("pending", "committing", "committed", "refused", "failed", "unknown")
        ),
    }
    known.forget(Key("team", "pi"))
    assert lines(known) == set()


def test_what_nobody_knows_is_left_out():
    world, known = Pipeline(), KnownJobs()
    source = WireSource(name="A", subtasks=3, splits=9)
    made = job_report(world.run.job_graph, world.run.graph.inventory(), {}, sources=[source])
    known.hear(Key("team", "pi"), "driver", made)
    names = {one.partition("{")[0] for one in lines(known)}
    assert names == {
        "rekindle_source_info",
        "rekindle_source_splits",
        "rekindle_source_subtasks",
        "rekindle_source_readers",
        "rekindle_source_reread_splits_total",
        "rekindle_source_returned_splits_total",
    }
    assert facts_of(made).sinks == ()
