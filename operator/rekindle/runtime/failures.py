"""What a failure means: user code, lost infrastructure, or a stored partition that cannot be read."""

from __future__ import annotations

import itertools
import re
import traceback
from dataclasses import dataclass, replace
from typing import Protocol

from rekindle.core.events import FailureCause, FailureKind
from rekindle.core.ids import ResultPartitionID
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import PipelineFailed, RekindleError, StoreFull, StoreRefused
from rekindle.runtime.layout import partition_of_path
from rekindle.runtime.tracebacks import is_users_file, users_lines


class Results(Protocol):
    """What an error is looked up in that speaks of a result."""

    @property
    def place(self) -> str:
        """Where results are stored."""
        ...

    def is_damaged(self, stage: str, partition: int, version: int) -> bool:
        """Whether that stored partition cannot be read back."""
        ...

    def cached_as(self, rdd: int) -> str | None:
        """The stage whose cached rows executors hold as that RDD of Spark's."""
        ...


_INFRASTRUCTURE = (
    "ExecutorLostFailure",
    "FetchFailed",
    "MetadataFetchFailed",
    "Executor heartbeat timed out",
    "Worker lost",
    "Remote RPC client disassociated",
    "executor decommission",
)
_KILLS_ITS_EXECUTOR = "exited caused by one of the running tasks"
"""What Spark says of an executor that was lost with its tasks. That may be any one's doing; but a job is only given up
for it when one task was there each time, and would be there again."""
_ROWS_GONE = re.compile(r"Checkpoint block rdd_(\d+)_\d+ not found")
_THROWN = re.compile(r"((?!org\.apache\.spark\.SparkException:)[\w.$]+(?:Exception|Error):|\[[A-Z][A-Z\d_.]*\]) ")
"""An exception of a task, or Spark's name of an error: what follows is its message, which may be the user's own."""
_NOWHERE = re.compile(
    r"[^\n]*Job aborted due to stage failure:\s*Aborting TaskSet [\d.]+ because task [^\n]*\s+cannot run"
)
"""All executors are excluded, as they are for a time after a fetch that failed."""
_NO_SPACE = ("No space left on device", "Disk quota exceeded")
_BUCKET_ERROR = re.compile(r"^rekindle\.runtime\.storage\.BucketError: (.*)$", re.MULTILINE)
_NO_MODULE = re.compile(r"^ModuleNotFoundError: No module named '([\w.]+)'", re.MULTILINE)
_MOST_HEADLINE = 400
_TASK = re.compile(r"Task (\d+)(?:\.\d+)? in stage")


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure as the core takes it, and as the user is told if it ends the run.

    Attributes:
        partition: the result partition whose task failed, if it is known.
        fatal: Spark has tried as often as it may; do not try again.
    """

    cause: FailureCause
    error: RekindleError
    partition: int | None = None
    fatal: bool = False


def classify_task_error(text: str, stage: Stage, partition: int | None, results: Results) -> Failure:
    """The failure behind the error message of one of Spark's tasks."""
    if any(mark in text for mark in _NO_SPACE):
        return _no_space(stage, partition, results.place)
    silent = _BUCKET_ERROR.search(text)
    if silent is not None:
        return _store_silent(stage, partition, silent[1])
    lost = _unreadable(text, stage, results)
    if lost is not None:
        message = f"{lost} cannot be read: {_headline(text)}"
        cause = FailureCause(FailureKind.PARTITION, message, lost)
        return Failure(cause, _pipeline_failed(message, stage, partition, text), partition)
    thrown = _THROWN.match(text)
    said_by_spark = thrown[1] if thrown else text.split("\n", 1)[0]
    is_infrastructure = any(mark in said_by_spark for mark in _INFRASTRUCTURE)
    return _failure(FailureKind.INFRASTRUCTURE if is_infrastructure else FailureKind.TASK, text, stage, partition)


def _unreadable(text: str, stage: Stage, results: Results) -> ResultPartitionID | None:
    """The partition of another stage's result that an error speaks of, if it is lost."""
    gone = _ROWS_GONE.search(text)
    if gone is not None and (cached := results.cached_as(int(gone[1]))) is not None:
        return ResultPartitionID(cached, 0)  # kept by executors, and made again, as a whole
    read = partition_of_path(text)
    if read is None or read[0] == stage.name or not results.is_damaged(*read):
        return None
    return ResultPartitionID(read[0], read[1])


def classify_job_error(error: BaseException, stage: Stage, results: Results) -> Failure:
    """The failure behind a Spark job that ended although nobody cancelled it."""
    text = _text_of(error)
    if _is_nowhere(text) or is_indeterminate(error):
        return _failure(FailureKind.INFRASTRUCTURE, text, stage, None)
    match = _TASK.search(text)
    failure = classify_task_error(_most_recent(text), stage, int(match[1]) if match else None, results)
    kills = _KILLS_ITS_EXECUTOR in _most_recent(text).split("\n", 1)[0]
    if failure.cause.kind is FailureKind.TASK or kills:
        return Failure(failure.cause, failure.error, failure.partition, fatal=True)
    return failure


def classify_planning_error(error: BaseException, stage: Stage, results: Results) -> Failure | None:
    """The failure behind a Spark job that ran while a stage was planned: a broadcast, or what its function asked for.

    None where the error is the function's own.
    """
    if not is_sparks(error):
        return None
    text = _text_of(error)
    if _is_nowhere(text):
        return _failure(FailureKind.INFRASTRUCTURE, text, stage, None)
    failure = classify_task_error(_most_recent(text), stage, None, results)
    if isinstance(failure.error, StoreFull | StoreRefused):
        return replace(failure, fatal=True)
    return failure if failure.cause.kind is not FailureKind.TASK else None


def is_sparks(error: BaseException) -> bool:
    """Whether it was raised by Spark, rather than by a function of the user's."""
    return type(error).__module__.split(".")[0] in ("py4j", "pyspark")


def is_raised_by_a_task(error: BaseException) -> bool:
    """Whether an error of Spark's tells of what was raised in a task: of no executor, space, store or result that was
    lost, nor of a job that was cancelled."""
    if not is_sparks(error):
        return False
    text = _text_of(error)
    said = _most_recent(text).split("\n", 1)[0]
    lost = any(mark in said for mark in _INFRASTRUCTURE) or any(mark in text for mark in _NO_SPACE)
    gone = any((partition_of_path(text), _BUCKET_ERROR.search(text), _ROWS_GONE.search(text), _is_nowhere(text)))
    return not (lost or gone or is_indeterminate(error) or "cancelled" in said)


def said_by(error: BaseException) -> tuple[str, str | None]:
    """What an error of Spark's says in one line, and the user's own traceback in it."""
    text = _most_recent(_text_of(error))
    return _headline(text), user_traceback(text)


def is_indeterminate(error: BaseException) -> bool:
    """Whether Spark (4.2 and newer) gave a job up since map outputs were lost that may come out differently, with
    result tasks finished already. Here that is a lost map side, and no failure of the user's."""
    text = _text_of(error)
    return "indeterminate output" in text or "indeterminate map stage" in text.lower()


def _is_nowhere(text: str) -> bool:
    return _NOWHERE.match(text) is not None and user_traceback(text) is None


def _failure(kind: FailureKind, text: str, stage: Stage, partition: int | None) -> Failure:
    message = _headline(text)
    cause = FailureCause(kind, message)
    return Failure(cause, _pipeline_failed(message, stage, partition, text), partition)


def _text_of(error: BaseException) -> str:
    """What Spark says, without what py4j says around it."""
    return str(getattr(error, "java_exception", None) or error)


def user_traceback(text: str) -> str | None:
    """The user's own Python traceback in an error of Spark's, without Spark's frames and the JVM's."""
    start = text.rfind("Traceback (most recent call last):")
    if start < 0:
        return None
    lines = itertools.takewhile(_is_python, text[start:].splitlines())
    return "\n".join(line.removesuffix(" SQLSTATE: 38000") for line in users_lines(lines))


def _is_python(line: str) -> bool:
    """False at the first line of a message that comes after its Python traceback."""
    return bool(line.strip()) and not line.startswith(("\tat ", "Driver stacktrace", " SQLSTATE"))


def _pipeline_failed(message: str, stage: Stage, partition: int | None, text: str) -> PipelineFailed:
    where = f"stage {stage.name}" + (f", partition {partition}" if partition is not None else "")
    return PipelineFailed(
        f"{where}: {message}",
        remedy=f"{_remedy(text)} and run again: the next run goes on from what is stored",
        stage=stage.name,
        partition=partition,
        traceback=user_traceback(text),
    )


def _remedy(text: str) -> str:
    missing = _NO_MODULE.search(text)
    if missing is None:
        return "mend the cause"
    return (
        f"install {missing[1]} for the Python of the executors, name another one (PYSPARK_PYTHON, or "
        "spark.pyspark.python with spark-submit; python3 unless it is said) or ship the module (--py-files),"
    )


def _no_space(stage: Stage, partition: int | None, place: str) -> Failure:
    message = f"no space left in the store {place}, or where Spark's scratch files lie"
    error = StoreFull(
        f"stage {stage.name}: {message}",
        remedy="free space or choose another store (recovery.store); what is stored stays valid",
        stage=stage.name,
        partition=partition,
    )
    return Failure(FailureCause(FailureKind.TASK, message), error, partition)


def _store_silent(stage: Stage, partition: int | None, why: str) -> Failure:
    """A bucket did not answer an executor for longer than the executor asked."""
    message = f"an executor cannot use the store: {why}"
    error = StoreRefused(
        f"stage {stage.name}: {message}",
        remedy="recovery.store must be a place that the driver and all executors can read and write",
        stage=stage.name,
        partition=partition,
    )
    return Failure(FailureCause(FailureKind.TASK, message), error, partition)


def _most_recent(text: str) -> str:
    """The part of a job's error that says what its last task failed with."""
    _, mark, rest = text.partition("most recent failure: ")
    return re.sub(r"^Lost task [^:]*: ", "", rest) if mark else text


def _message_below_frames(traceback: list[str]) -> str:
    """The exception with its message and the notes that were added to it, which may have several lines."""
    below = traceback[max((place for place, line in enumerate(traceback) if line.startswith("  ")), default=-1) + 1 :]
    return " ".join(" ".join(below or traceback[-1:]).split())[:_MOST_HEADLINE]


def _headline(text: str) -> str:
    """One line: the exception's own message rather than the frames around it."""
    own = user_traceback(text)
    if own:
        return _message_below_frames(own.strip().splitlines())
    first, _, rest = text.strip().partition("\n")
    if first.rstrip().endswith(":"):
        first = f"{first.rstrip()} {' '.join(rest.split())}"
    return re.sub(r"^(org|java|scala|py4j)\.[\w.$]+: ", "", first)[:_MOST_HEADLINE]


def user_error(
    stage: str, error: BaseException, source: str | None = None, *, sink: str | None = None, where: str = ""
) -> PipelineFailed:
    """An exception of the user's stage function, or of the source that the stage reads, or of the sink that it writes
    to, with the user's frames only. `where` it was raised, if that is not the stage as a whole."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_users_file(frame.filename)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(own or frames[-1:])]
    try:
        message = str(error).split("\nJVM stacktrace")[0].split("\n\tat ")[0].strip()
    except Exception as unsayable:  # its __str__ is the user's too
        message = f"(its message cannot be made: {type(unsayable).__name__})"
    lines.append(f"{type(error).__name__}: {message}")
    whose, what = "its function", "the stage"
    if sink is not None:
        whose, what = f"its sink {sink}", "the sink's options, or what they name"
    elif source is not None:
        whose, what = f"its source {source}", "it, or its options"
    return PipelineFailed(
        f"{where or f'stage {stage}'}: {whose} raised {type(error).__name__}",
        remedy=f"mend {what}; the next run goes on from what is stored",
        stage=stage,
        traceback="".join(lines),
    )
