"""When a result is written by Spark, and when it is not: once, unless twice is as good."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.pipeline import Pipeline, SparkSink
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import Fenced, PipelineFailed
from rekindle.runtime.facts import fold
from rekindle.runtime.journal import note
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.publication import Publication, WriteFailed, publish_once
from rekindle.runtime.sink_folder import contents_of


def stage_of(sink: SparkSink) -> Stage:
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink(sink, partitions=1, name="b")(lambda a: a)
    return pipeline.build().stage("b")


def contents(sink: SparkSink, rows: int = 3, digest: str | None = None) -> dict[str, Any]:
    manifest = Manifest("b", 0, 1, 0, "w", rows, 9, digest, (), 0.0, 0.0)
    return {**contents_of("run", [manifest]), "place": sink.place}


class Run:
    """A run whose journal is a list: each `publish` is by another driver."""

    def __init__(self, **sink: Any) -> None:
        self.sink = SparkSink("jdbc", **sink)
        self.records = [note(0.0, "RunStarted", application="p", fingerprints={})]
        self.written = 0

    def publish(self, problem: Exception | None = None, rows: int = 3, *, has_begun: bool = True) -> None:
        told = contents(self.sink, rows)
        before = fold(self.records).publications.get(("b", self.sink.place), Publication())

        def say(name: str) -> None:
            self.records.append(note(1.0, name, stage="b", path="", files=0, contents=told))

        def write() -> None:
            self.written += has_begun
            if problem is not None:
                raise WriteFailed(problem, has_begun=has_begun)
            say("SinkPublished")

        publish_once(
            stage_of(self.sink),
            self.sink,
            before,
            told,
            begin=lambda: say("SinkPublishing"),
            write=write,
            not_begun=lambda: say("SinkNotBegun"),
        )


@pytest.mark.requirement("S5-8")
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_what_is_there_is_not_written_again(mode):
    run = Run(mode=mode)
    run.publish()
    run.publish()
    assert run.written == 1


def test_what_may_be_there_in_part_is_not_added_again():
    run = Run(mode="append")
    with pytest.raises(PipelineFailed, match=r"(?s)could not write to jdbc: it is away.*look what is there"):
        run.publish(OSError("it is away"))
    with pytest.raises(PipelineFailed, match=r"(?s)nobody can tell how far it came.*repeatable=True.*--fresh"):
        run.publish()
    assert run.written == 1
    run.sink = SparkSink("jdbc", repeatable=True)
    run.publish()
    assert run.written == 2


def test_a_job_that_failed_before_it_began_changes_nothing():
    run = Run(mode="append")
    for _ in range(2):
        with pytest.raises(
            PipelineFailed, match=r"(?s)could not write to jdbc: no driver.*only publishing is repeated"
        ):
            run.publish(OSError("no driver"), has_begun=False)
    run.publish()
    run.publish()
    assert run.written == 1


def test_a_driver_that_was_lost_while_it_wrote_is_not_forgotten_over_a_job_that_never_began():
    run = Run(mode="append")
    with pytest.raises(PipelineFailed):
        run.publish(OSError("it is away"))
    run.sink = SparkSink("jdbc", repeatable=True)
    with pytest.raises(PipelineFailed):
        run.publish(OSError("no driver"), has_begun=False)
    run.sink = SparkSink("jdbc")
    with pytest.raises(PipelineFailed, match="nobody can tell"):
        run.publish()


@pytest.mark.parametrize("sink", [{"mode": "overwrite"}, {"mode": "append", "repeatable": True}], ids=str)
def test_what_may_be_written_twice_is_written_until_it_is_there(sink):
    run = Run(**sink)
    with pytest.raises(PipelineFailed, match="only publishing is repeated"):
        run.publish(OSError("it is away"))
    run.publish()
    run.publish()
    assert run.written == 2


def test_a_result_that_was_made_again_after_it_was_written_is_written_only_where_that_replaces_it():
    added, replaced = Run(mode="append"), Run(mode="overwrite")
    for run in (added, replaced):
        run.publish(rows=3)
    with pytest.raises(PipelineFailed, match="parts of it were made again since"):
        added.publish(rows=4)
    replaced.publish(rows=4)
    assert (added.written, replaced.written) == (1, 2)


def test_another_place_is_not_the_one_that_failed():
    run = Run(options={"dbtable": "a"})
    with pytest.raises(PipelineFailed):
        run.publish(OSError("it is away"))
    run.sink = SparkSink("jdbc", {"dbtable": "b"})
    run.publish()
    run.sink = SparkSink("jdbc", {"dbtable": "a", "password": "another"})
    with pytest.raises(PipelineFailed, match="nobody can tell"):
        run.publish()


def test_a_driver_that_may_not_any_more_writes_nothing():
    def overtaken() -> None:
        raise Fenced("another driver has taken this store")

    written, sink = [], SparkSink("jdbc", mode="overwrite")
    with pytest.raises(Fenced):
        publish_once(
            stage_of(sink),
            sink,
            Publication(),
            contents(sink),
            begin=overtaken,
            write=lambda: written.append("once"),
            not_begun=lambda: None,
        )
    assert written == []


def test_rows_that_were_made_again_and_are_the_same_are_there():
    sink = SparkSink("jdbc")
    first, again = contents(sink, digest="3-1-2-c"), {**contents(sink, digest="3-1-2-c"), "files": "others"}
    there = Publication().after("SinkPublishing", first).after("SinkPublished", first)
    assert there.has(again)
    assert not there.has({**again, "digest": "3-1-3-c"})
    assert not there.has({**again, "digest": None})
    assert not there.after("SinkPublishing", first).has(again)
