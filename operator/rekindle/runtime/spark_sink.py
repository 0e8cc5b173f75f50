"""Publishing by a job of Spark's, for what only Spark can write to.

Such a job is one act of somebody else: it may have come to its end, or half of it, when its driver is lost. So the
journal has that it begins before it does, and that it has ended. In between nobody can tell, and it is repeated only
where that does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rekindle.pipeline.sinks import SparkSink
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import PipelineFailed, RekindleError
from rekindle.runtime.failures import said_by
from rekindle.runtime.manifest import Manifest
from rekindle.runtime.publish import check_whole, contents_of
from rekindle.runtime.relations import activate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Contents = Mapping[str, object]
"""Which result it is, by `contents_of`."""


@dataclass(frozen=True, slots=True)
class Publication:
    """What a journal tells of a sink that Spark writes to.

    Attributes:
        begun: a job has begun to write that; None where none has.
        ended: the last that has come to its end.
    """

    begun: Contents | None = None
    ended: Contents | None = None

    @property
    def is_uncertain(self) -> bool:
        """Whether a job has begun of which nobody knows how far it came."""
        return self.begun is not None and self.begun != self.ended


def publish_by_spark(
    stage: Stage,
    sink: SparkSink,
    before: Publication,
    manifests: Sequence[Manifest],
    identity: str,
    *,
    begin: Callable[[Contents], None],
    write: Callable[[], None],
) -> Contents:
    """Write a result by a job of Spark's, unless that is done; which one it is.

    Args:
        before: what earlier drivers have done.
        manifests: of all partitions, in order.
        identity: names this run.
        begin: makes known that the job begins; raises if this driver may not any more.
        write: has the job done, `write_by_spark`.

    Raises:
        InputLost: a manifest is gone.
        PipelineFailed: it may be there in part, or another result is, and to write it again is not the same as once; or
            Spark could not write it.
    """
    check_whole(stage, manifests)
    contents = contents_of(identity, manifests)
    if before.ended == contents and not before.is_uncertain:
        return contents
    if before.begun is not None and not sink.may_repeat:
        raise _not_again(stage, sink, before)
    begin(contents)
    try:
        write()
    except RekindleError:
        raise
    except Exception as error:
        headline, traceback = said_by(error)
        raise PipelineFailed(
            f"sink {stage.name}: Spark could not write to {sink.target}: {headline}",
            remedy="mend the cause and run again: the result is stored, only publishing is repeated"
            if sink.may_repeat
            else "look what is there: the result is stored, and is written again where SparkSink says repeatable=True",
            stage=stage.name,
            traceback=traceback,
        ) from error
    return contents


def write_by_spark(sink: SparkSink, frame: DataFrame) -> None:
    """The job. To be called in a thread of its own."""
    activate(frame.sparkSession)  # a Python DataSource is looked up there
    if not isinstance(sink.format, str):
        frame.sparkSession.dataSource.register(sink.format)
    writer = frame.write.mode(sink.mode).options(**{str(key): value for key, value in sink.options.items()})
    if sink.format_name:
        writer = writer.format(sink.format_name)
    if sink.table:
        writer.saveAsTable(sink.table)
    else:
        writer.save()


def _not_again(stage: Stage, sink: SparkSink, before: Publication) -> PipelineFailed:
    why = (
        "an earlier driver ended while Spark wrote it, and nobody can tell how far it came"
        if before.is_uncertain
        else "it was written before, and parts of it were made again since"
    )
    return PipelineFailed(
        f"sink {stage.name}: the result is not written to {sink.target} again: {why}",
        remedy="look what is there. If it may be written again, say SparkSink(..., repeatable=True) and run again; if "
        "all is there, this run has nothing left to do: begin the next one anew (--fresh)",
        stage=stage.name,
    )
