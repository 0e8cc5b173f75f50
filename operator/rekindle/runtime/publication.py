"""Publishing by one act of somebody else: a job of Spark's, or the commit of a DataSource's writer.

It may have come to its end, or half of it, when its driver is lost. So the journal has that it begins before it does,
and that it has ended. In between nobody can tell, and it is repeated only where that does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rekindle.pipeline.sinks import SparkSink, WrittenElsewhere
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import PipelineFailed
from rekindle.runtime.failures import said_by

Contents = Mapping[str, object]
"""Which result it is, by `contents_of`, and its `place`."""


@dataclass(frozen=True, slots=True)
class Publication:
    """What a journal tells of a sink that Spark writes to.

    Attributes:
        ended: what the last job has written that has come to its end; None where none has.
        uncertain: how many jobs have begun since of which nobody knows how far they came.
    """

    ended: Contents | None = None
    uncertain: int = 0

    def after(self, note: str, contents: Contents) -> Publication:
        """What is known after a note of the journal: a job begins, has ended, or has failed and written nothing."""
        match note:
            case "SinkPublishing":
                return Publication(self.ended, self.uncertain + 1)
            case "SinkPublished":
                return Publication(contents, 0)
            case _:
                return Publication(self.ended, max(0, self.uncertain - 1))

    def has(self, contents: Contents) -> bool:
        """Whether that is there, and nothing else may be."""
        if self.uncertain or self.ended is None:
            return False
        alike = all(self.ended.get(key) == contents.get(key) for key in ("run", "rows", "digest"))
        return self.ended == contents or (alike and contents.get("digest") is not None)


def publish_once(
    stage: Stage,
    sink: WrittenElsewhere,
    before: Publication,
    contents: Contents,
    *,
    begin: Callable[[], None],
    write: Callable[[], None],
    not_begun: Callable[[], None],
) -> None:
    """Have somebody else write a result, unless it is there.

    Args:
        before: what earlier drivers have done.
        contents: which result it is.
        begin: makes known that it begins; raises if this driver may not any more.
        write: has it done; raises WriteFailed.
        not_begun: makes known that it has failed before it wrote anything.

    Raises:
        PipelineFailed: it may be there in part, or another result is, and to write it again is not the same as once; or
            it could not be written.
    """
    if before.has(contents):
        return
    if (before.uncertain or before.ended is not None) and not sink.may_repeat:
        raise _not_again(stage, sink, before)
    begin()
    try:
        write()
    except WriteFailed as failed:
        if not failed.has_begun:
            not_begun()
        headline, traceback = said_by(failed.error)
        raise PipelineFailed(
            f"sink {stage.name}: {_could_not(sink)} {sink.target}: {headline}",
            remedy="mend the cause and run again: the result is stored, only publishing is repeated"
            if sink.may_repeat or not failed.has_begun
            else "look what is there: the result is stored, and is written again where "
            f"{type(sink).__name__} says repeatable=True",
            stage=stage.name,
            traceback=traceback,
        ) from failed.error


class WriteFailed(Exception):
    """It could not be written. `has_begun`: some of it may have been."""

    def __init__(self, error: Exception, *, has_begun: bool) -> None:
        super().__init__(str(error))
        self.error, self.has_begun = error, has_begun


def _could_not(sink: WrittenElsewhere) -> str:
    return "Spark could not write to" if isinstance(sink, SparkSink) else "its writer could not commit to"


def _not_again(stage: Stage, sink: WrittenElsewhere, before: Publication) -> PipelineFailed:
    why = (
        "a job that wrote it has failed, or was cut off with its driver, and nobody can tell how far it came"
        if before.uncertain
        else "it was written before, and parts of it were made again since"
    )
    return PipelineFailed(
        f"sink {stage.name}: the result is not written to {sink.target} again: {why}",
        remedy="look what is there. If it may be written again, say "
        f"{type(sink).__name__}(..., repeatable=True) and run again; if all is there, this run has nothing left to do: "
        "begin the next one anew (--fresh)",
        stage=stage.name,
    )
