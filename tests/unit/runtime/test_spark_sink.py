"""When a result is written by Spark, and when it is not: once, unless twice is as good."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.pipeline import Pipeline, SparkSink
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import Fenced, InputLost, PipelineFailed
from rekindle.runtime.facts import fold
from rekindle.runtime.journal import note
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.publish import contents_of
from rekindle.runtime.spark_sink import Publication, publish_by_spark


def stage_of(sink: SparkSink) -> Stage:
    pipeline = Pipeline("p")
    pipeline.source(name="a")(lambda spark: spark)
    pipeline.sink(sink, partitions=1, name="b")(lambda a: a)
    return pipeline.build().stage("b")


def manifests(rows: int = 3) -> list[Manifest]:
    return [Manifest("b", 0, 1, 0, "w", rows, 9, None, (), 0.0, 0.0)]


class Run:
    """A run whose journal is a list: each `publish` is by another driver."""

    def __init__(self, **sink: Any) -> None:
        self.sink = SparkSink("jdbc", **sink)
        self.records = [note(0.0, "RunStarted", application="p", fingerprints={})]
        self.written = 0

    def publish(self, problem: Exception | None = None, rows: int = 3) -> None:
        before = fold(self.records).publications.get("b", Publication())

        def begin(contents: Any) -> None:
            self.records.append(note(1.0, "SinkPublishing", stage="b", contents=contents))

        def write() -> None:
            self.written += 1
            if problem is not None:
                raise problem

        contents = publish_by_spark(
            stage_of(self.sink), self.sink, before, manifests(rows), "run", begin=begin, write=write
        )
        self.records.append(note(2.0, "SinkPublished", stage="b", path="", files=0, contents=contents))


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


def test_a_driver_that_may_not_any_more_writes_nothing():
    def overtaken(_: object) -> None:
        raise Fenced("another driver has taken this store")

    written, sink = [], SparkSink("jdbc", mode="overwrite")
    with pytest.raises(Fenced):
        publish_by_spark(
            stage_of(sink),
            sink,
            Publication(),
            manifests(),
            "run",
            begin=overtaken,
            write=lambda: written.append("once"),
        )
    assert written == []


def test_a_result_of_which_a_part_is_gone_is_not_written():
    sink = SparkSink("jdbc")
    with pytest.raises(InputLost, match="1 of 1 manifests are gone"):
        publish_by_spark(
            stage_of(sink), sink, Publication(), [], "run", begin=lambda contents: None, write=lambda: None
        )


def test_a_publication_is_uncertain_from_its_begin_to_its_end():
    first, second = contents_of("run", manifests(3)), contents_of("run", manifests(4))
    assert not Publication().is_uncertain
    assert Publication(first).is_uncertain
    assert not Publication(first, first).is_uncertain
    assert Publication(second, first).is_uncertain
