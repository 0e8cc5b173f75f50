"""Publishing by Spark: the job master goes on answering, and ends it where it is fenced."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.types import StructType

from rekindle.api.connector_report import CommitState
from rekindle.pipeline import DataSourceSink
from rekindle.runtime import data_source_sink
from rekindle.runtime.errors import Fenced, PipelineFailed
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.publication import Publication, WriteFailed
from rekindle.runtime.publisher import Publisher


class Driver:
    """What a publisher uses of a run. `jobs`: those that Spark has begun."""

    def __init__(self, check: Callable[[], None] = lambda: None, jobs: int = 0) -> None:
        self.cancelled, self.ended, self.told, self.may_end = list[str](), list[str](), list[float](), threading.Event()
        scheduler = SimpleNamespace(
            cancel_group=self.cancel, jobs_of=lambda group: ["job"] * jobs, without_speculation=contextlib.nullcontext
        )
        lease = SimpleNamespace(check_renewed=check)
        journal = SimpleNamespace(check_kept=lambda: None)
        run = SimpleNamespace(lease=lease, identity="run", writer="w", journal=journal)
        state: Any = SimpleNamespace(open_run=run, scheduler=scheduler, note=self.note, commits={})
        scheduler.enter_group = lambda group, description: None
        self.state = state
        self.noted = list[tuple[str, dict[str, Any]]]()
        self.publisher = Publisher(state, lambda: None, self.told.append)

    def note(self, name: str, **more: Any) -> None:
        self.noted.append((name, more))

    def cancel(self, group: str) -> None:
        self.cancelled.append(group)
        self.may_end.set()

    def run(self, work: Callable[[], None]) -> None:
        self.publisher.in_background(work, "group", lambda: self.ended.append("well"))


@pytest.mark.parametrize("jobs", [0, 1])
def test_what_the_work_raises_is_told_with_whether_spark_had_begun(jobs):
    def fail() -> None:
        raise OSError("it is away")

    driver = Driver(jobs=jobs)
    with pytest.raises(WriteFailed, match="it is away") as failed:
        driver.run(fail)
    assert failed.value.has_begun == bool(jobs)
    assert (driver.cancelled, driver.ended) == ([], [])


def test_the_operator_is_answered_meanwhile():
    driver = Driver()
    driver.run(lambda: assert_set(driver.may_end, lambda: len(driver.told) > 1))
    assert driver.ended == ["well"]


def fenced() -> None:
    raise Fenced("another driver has taken this store")


def test_a_driver_that_is_fenced_meanwhile_cancels_it():
    driver = Driver(fenced)

    def cut_off() -> None:
        assert driver.may_end.wait(10)
        raise OSError("cancelled")

    with pytest.raises(Fenced):
        driver.run(cut_off)
    assert (driver.cancelled, driver.ended) == (["group"], [])


def test_what_has_come_to_its_end_all_the_same_is_made_known():
    driver = Driver(fenced)
    with pytest.raises(Fenced):
        driver.run(lambda: assert_set(driver.may_end))
    assert (driver.cancelled, driver.ended) == (["group"], ["well"])


@pytest.mark.parametrize("earlier", [Publication(), Publication(uncertain=1)], ids=["first", "again"])
def test_what_lost_is_aborted_unless_it_may_have_been_committed(earlier, monkeypatch):
    """One of two partitions was made again. When another driver has committed, nobody knows which of the two."""
    told = list[tuple[str, list[str]]]()
    writer = SimpleNamespace(
        commit=lambda messages: told.append(("commit", messages)),
        abort=lambda messages: told.append(("abort", messages)),
    )
    made = {(0, 1): "a", (0, 2): "b", (1, 1): "c"}
    manifests = {key: manifest(*key, sent(message)) for key, message in made.items()}
    driver, sink = Driver(), DataSourceSink(Postbox, repeatable=True)
    state = driver.state
    state.manifests = lambda name: [manifests[0, 2], manifests[1, 1]]
    state.committed = SimpleNamespace(manifests={"out": manifests})
    state.open_run.facts = SimpleNamespace(publications={("out", sink.place): earlier})
    monkeypatch.setattr(data_source_sink, "made_writer", lambda *what: writer)
    state.schemas = {"out": StructType().json()}
    stage: Any = SimpleNamespace(name="out", partitions=2, sink=sink)
    state.graph = SimpleNamespace(name="p", stages=[stage])
    driver.publisher.publish_all()
    assert told == [("commit", ["b", "c"]), *([("abort", ["a"])] if earlier == Publication() else [])]


class Postbox:
    @classmethod
    def name(cls) -> str:
        return "postbox"


def sent(message: str) -> str:
    return base64.b64encode(cloudpickle.dumps(message)).decode()


def manifest(partition: int, version: int, message: str) -> Manifest:
    return replace(Manifest.of_nothing("out", partition), version=version, message=message)


def assert_set(event: threading.Event, seen: Callable[[], bool] = lambda: False) -> None:
    for _ in range(1000):
        if event.wait(0.01) or seen():
            return
    raise AssertionError("it was never so")


@pytest.mark.parametrize(
    ("has_begun", "repeatable", "earlier", "state"),
    [
        (True, None, Publication(), "Failed"),
        (False, None, Publication(uncertain=1), "Refused"),
        (None, None, Publication(), "Committed"),
    ],
    ids=["its writer raises", "another may have done it", "well"],
)
def test_how_far_a_commit_came_is_told_with_its_reason(monkeypatch, has_begun, repeatable, earlier, state):
    def commit(*_: object) -> None:
        if has_begun is not None:
            raise WriteFailed(OSError("the table is gone"), has_begun=has_begun)

    driver, sink = Driver(), DataSourceSink(Postbox, repeatable=repeatable)
    told = list[tuple[CommitState, str]]()
    driver.publisher._tell = lambda now: told.append(driver.state.commits.get("out", (CommitState.PENDING, "")))
    driver.state.manifests = lambda name: [manifest(0, 1, sent("a"))]
    driver.state.committed = SimpleNamespace(manifests={})
    driver.state.open_run.facts = SimpleNamespace(publications={("out", sink.place): earlier})
    driver.state.schemas = {"out": StructType().json()}
    driver.state.graph = SimpleNamespace(name="p", stages=[SimpleNamespace(name="out", partitions=1, sink=sink)])
    monkeypatch.setattr("rekindle.runtime.publisher.commit", commit)
    message = ""
    try:
        driver.publisher.publish_all()
    except PipelineFailed as failed:
        message = failed.message
    last, reason = told[-1]
    assert last == state
    began = [CommitState.COMMITTING] if state != "Refused" else []
    assert [one for one, _ in told if one is CommitState.COMMITTING][:1] == began
    noted = [more for name, more in driver.noted if name == "SinkNotCommitted"]
    assert reason == message
    assert noted == ([{"stage": "out", "state": state, "reason": reason}] if state != "Committed" else [])
    assert bool(reason) == (state != "Committed")


def test_a_driver_that_may_not_any_more_says_nothing_of_its_sinks():
    driver = Driver()
    driver.state.graph = SimpleNamespace(stages=[SimpleNamespace(name="out", sink=DataSourceSink(Postbox))])
    driver.publisher._publish = lambda stage: fenced()  # type: ignore[method-assign]
    with pytest.raises(Fenced):
        driver.publisher.publish_all()
    assert (driver.noted, driver.state.commits) == ([], {})
