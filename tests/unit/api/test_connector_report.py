"""What a job master tells of sources and sinks arrives as it was, from older and newer ones too."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rekindle.api.connector_report import MOST_CONNECTORS, CommitState, WireSink, WireSource, WireSplits
from rekindle.api.job_report import JobReport, job_report
from rekindle.api.operator_exchange import MOST_ANSWER_BYTES, ExchangeAnswer, decode, encode, wished
from rekindle.core.inventory import JobInventory
from tests.unit.core.dsl import job

SOURCE = WireSource(name="read", subtasks=2, splits=9, most=WireSplits(subtask=1, splits=5), records=7)
SINK = WireSink(name="out", kind="FileSink", mode="error", partitions=2, commit="Refused", commit_reason="it is there")


def report(sources: list[WireSource], sinks: list[WireSink]) -> JobReport:
    made = job_report(job("read*2 => out*2"), JobInventory(), {}, sources=sources, sinks=sinks)
    assert made is not None
    return made


def told(**fields: Any) -> JobReport | None:
    """What a driver of another version tells."""
    of_job = {"name": "j", "vertices": [{"name": "read", "parallelism": 2}], **fields}
    return decode(json.dumps({"job": of_job}).encode(), ExchangeAnswer).job


def test_they_arrive_as_they_were():
    made = report([SOURCE], [SINK])
    arrived = decode(encode(wished([], excludes=True, job=made)), ExchangeAnswer).job
    assert arrived == made
    assert (made.sources, made.sinks) == ((SOURCE,), (SINK,))


def test_an_older_driver_tells_of_none():
    older = told()
    assert older is not None
    assert (older.sources, older.sinks) == ((), ())


def test_what_a_newer_one_tells_besides_is_passed_over():
    newer = told(
        sources=[{"name": "read", "subtasks": 2, "splits": 9, "watermark": 4}],
        sinks=[{"name": "out", "partitions": 2, "commit": "TwoPhase", "epoch": 3}],
    )
    assert newer is not None
    assert newer.sources == (WireSource(name="read", subtasks=2, splits=9),)
    assert CommitState(newer.sinks[0].commit) is CommitState.UNKNOWN


def test_of_very_many_some_are_told_and_there_is_room():
    names = [f"{number:0>253}" for number in range(MOST_CONNECTORS + 1)]
    long: dict[str, Any] = {"kind": "ö" * 100, "reason": "ö" * 500}
    sources = [WireSource(name=name, subtasks=2, splits=9, **long) for name in names]
    sinks = [WireSink(name=name, partitions=2, commit_reason="ö" * 500, **long) for name in names]
    made = report(sources, sinks)
    assert (len(made.sources), len(made.sinks)) == (MOST_CONNECTORS, MOST_CONNECTORS)
    assert len(encode(wished([], excludes=True, job=made))) < MOST_ANSWER_BYTES / 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"sources": [{"name": "a b", "subtasks": 1, "splits": 1}]}, r"job.sources\[0\].name"),
        ({"sources": [{"name": "a", "subtasks": 1, "splits": -1}]}, r"job.sources\[0\].splits"),
        ({"sources": [{"name": "a", "subtasks": 1, "splits": 10**13}]}, r"job.sources\[0\].splits"),
        ({"sources": [{"name": "a", "subtasks": 1, "splits": 1}] * 2}, "sources: a name twice"),
        ({"sinks": [{"name": "a", "partitions": 1}] * 2}, "sinks: a name twice"),
        ({"sinks": [{"name": "a", "partitions": 1, "commitReason": "x" * 501}]}, r"job.sinks\[0\].commitReason"),
        ({"sinks": [{"name": f"n{number}", "partitions": 1} for number in range(51)]}, "job.sinks"),
    ],
    ids=["a space", "less than none", "too many", "a source twice", "a sink twice", "a long reason", "too many sinks"],
)
def test_what_could_not_be_shown_is_refused_by_name(fields, message):
    with pytest.raises(ValueError, match=message):
        told(**fields)
