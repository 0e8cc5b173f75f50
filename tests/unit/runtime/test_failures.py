"""What Spark says, and what it means: a bad task, a lost executor, a stored partition that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from rekindle.core.events import FailureKind
from rekindle.core.ids import ResultPartitionID
from rekindle.pipeline.distribution import Rebalance
from rekindle.pipeline.exchange import ExchangeMode
from rekindle.pipeline.stage import Stage
from rekindle.runtime.errors import StoreFull, StoreRefused
from rekindle.runtime.failures import (
    classify_job_error,
    classify_task_error,
    is_indeterminate,
    is_raised_by_a_task,
    user_traceback,
)


def never_called(*_: Any) -> Any:
    raise AssertionError


STAGE = Stage(
    name="delays",
    fn=never_called,
    inputs=("flights",),
    description="",
    distribution=Rebalance(4),
    partitions=4,
    exchange=ExchangeMode.BLOCKING,
    deterministic=None,
    speculation=True,
    sink=None,
    broadcast=frozenset(),
    is_source=False,
    takes_spark=False,
)
PYTHON = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/pyspark/python/lib/pyspark.zip/pyspark/worker.py", line 4207, in invoke_udf
    func(split_index)
    ^^^^^^^^^^^^^^^^^
  File "/home/ann/app/main.py", line 12, in invert
    return 10 // (value - 7)
           ~~~^^~~~~~~~~~~~~
ZeroDivisionError: integer division or modulo by zero

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1097)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""
READ = (
    "org.apache.spark.SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file "
    "file:///s/runs/0001/data/flights/.attempt-p00003-v0002-ab12/part-00003-cd_00003.c000.snappy.parquet."
)


@dataclass
class Results:
    """Of which all stored partitions are damaged, or none; what was asked about is in `asked`."""

    damaged: bool
    asked: list[tuple[str, int, int]] = field(default_factory=list)

    def is_damaged(self, stage: str, partition: int, version: int) -> bool:
        self.asked.append((stage, partition, version))
        return self.damaged

    place = "/stored"

    def cached_as(self, rdd: int) -> str | None:
        return {17: "weather"}.get(rdd)


def classify(text: str, damaged: bool = True):
    return classify_task_error(text, STAGE, 1, Results(damaged))


def test_user_code_that_raised_is_a_task_failure_with_its_own_frames_only():
    failure = classify(PYTHON)
    assert failure.cause.kind is FailureKind.TASK
    assert failure.cause.message == "ZeroDivisionError: integer division or modulo by zero"
    text = str(failure.error)
    assert 'File "/home/ann/app/main.py", line 12, in invert' in text
    assert "pyspark.zip" not in text
    assert "func(split_index)" not in text
    assert "\tat " not in text
    assert text.startswith("stage delays, partition 1: ZeroDivisionError")


@pytest.mark.parametrize("words", ["FetchFailed", "ExecutorLostFailure", "Worker lost"])
@pytest.mark.parametrize("before", ["", "org.apache.spark.SparkRuntimeException: "])
def test_what_an_exception_of_the_users_says_makes_no_infrastructure_of_it(words, before):
    raised = f"{before}[USER_RAISED_EXCEPTION] {words} said the service"
    assert classify(raised).cause.kind is FailureKind.TASK
    assert classify_job_error(RuntimeError(raised), STAGE, Results(damaged=False)).fatal


def test_a_module_that_executors_lack_is_said_with_the_ways_to_bring_it_there():
    line = "ZeroDivisionError: integer division or modulo by zero"
    error = classify(PYTHON.replace(line, "ModuleNotFoundError: No module named 'pyarrow'")).error
    assert "install pyarrow for the Python of the executors" in str(error)
    assert "PYSPARK_PYTHON" in str(error)


@pytest.mark.requirement("S7-14")
def test_a_stored_partition_that_cannot_be_read_is_named_as_the_cause():
    failure = classify(READ)
    assert failure.cause.kind is FailureKind.PARTITION
    assert failure.cause.partition == ResultPartitionID("flights", 3)


def test_a_read_error_over_a_sound_partition_is_the_tasks_own():
    assert classify(READ, damaged=False).cause.kind is FailureKind.TASK


def test_the_damage_is_looked_for_in_the_version_that_was_read():
    results = Results(damaged=True)
    classify_task_error(READ, STAGE, 1, results)
    assert results.asked == [("flights", 3, 2)]


ROWS_GONE = """org.apache.spark.SparkException: [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_17_2 not found!
Either the executor that originally checkpointed this partition is no longer alive, or the original RDD is unpersisted.
\tat org.apache.spark.errors.SparkCoreErrors$.checkpointRDDBlockIdNotFoundError(SparkCoreErrors.scala:81)
"""


@pytest.mark.requirement("S6-10", "S7-14")
def test_cached_rows_that_are_gone_are_their_stages_lost_partition():
    aborted = f"Job aborted due to stage failure: Task 2 in stage 5.0 failed 4 times, most recent failure: {ROWS_GONE}"
    for failure in (classify(ROWS_GONE), classify_job_error(RuntimeError(aborted), STAGE, Results(damaged=False))):
        assert failure.cause.kind is FailureKind.PARTITION
        assert failure.cause.partition == ResultPartitionID("weather", 0)
        assert not failure.fatal


def test_rows_that_nobody_here_holds_are_the_programs_own():
    assert classify(ROWS_GONE.replace("rdd_17", "rdd_18")).cause.kind is FailureKind.TASK


NOWHERE = """Job aborted due to stage failure: \x20
Aborting TaskSet 1.0 because task 0 (partition 0)
cannot run anywhere due to node and executor excludeOnFailure.
Most recent failure:
{}

ExcludeOnFailure behavior can be configured via spark.excludeOnFailure.*.
"""


@pytest.mark.parametrize(("last", "final"), [("FetchFailed(null, shuffleId=0)", False), (PYTHON, True)])
def test_executors_that_are_all_excluded_are_waited_for_unless_it_was_for_the_users_code(last, final):
    failure = classify_job_error(RuntimeError(NOWHERE.format(last)), STAGE, Results(damaged=False))
    assert failure.fatal is final
    assert (failure.cause.kind is FailureKind.INFRASTRUCTURE) is not final


@pytest.mark.parametrize(
    "text",
    [
        "ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: Worker lost",
        "FetchFailed(BlockManagerId(1, 127.0.0.3, 41, None), shuffleId=0, mapIndex=1, message=\nConnection refused)",
    ],
)
def test_lost_infrastructure_is_not_the_tasks_fault(text):
    assert classify(text).cause.kind is FailureKind.INFRASTRUCTURE


def test_words_of_lost_infrastructure_inside_user_code_do_not_excuse_it():
    assert classify(PYTHON.replace("integer division", "Worker lost:")).cause.kind is FailureKind.TASK


@pytest.mark.requirement("S7-30")
def test_no_space_may_be_one_nodes_trouble_and_is_named_when_it_ends_the_run():
    full = "java.io.IOException: No space left on device"
    assert not classify(full).fatal
    aborted = RuntimeError(f"Job aborted ... most recent failure: Lost task 0.3 in stage 1.0: {full}")
    ended = classify_job_error(aborted, STAGE, Results(damaged=False))
    assert ended.fatal
    for failure in (classify(full), ended):
        assert isinstance(failure.error, StoreFull)
        assert failure.error.exit_code == 4


def test_a_job_that_spark_gave_up_over_a_task_is_final_and_names_the_task():
    text = f"Job aborted due to stage failure: Task 2 in stage 5.0 failed 5 times, most recent failure: {PYTHON}"
    failure = classify_job_error(RuntimeError(text), STAGE, Results(damaged=True))
    assert failure.fatal
    assert failure.partition == 2


@pytest.mark.requirement("S6-24")
@pytest.mark.parametrize(
    ("how", "final"), [("caused by one of the running tasks", True), ("unrelated to the running tasks", False)]
)
def test_a_task_that_ended_its_executor_each_time_is_not_tried_for_ever(how, final):
    """As one that needs more memory than there is: no number of new executors would help it."""
    lost = f"ExecutorLostFailure (executor 3 exited {how}) Reason: Command exited with code 137"
    text = (
        f"Job aborted due to stage failure: Task 2 in stage 5.0 failed 5 times, most recent failure: Lost task: {lost}"
    )
    failure = classify_job_error(RuntimeError(text), STAGE, Results(damaged=False))
    assert failure.fatal is final
    assert failure.partition == 2
    assert failure.cause.kind is FailureKind.INFRASTRUCTURE


def test_without_a_python_traceback_there_is_none():
    assert user_traceback("java.lang.ArithmeticException: divide by zero\n\tat x.y(z.java:1)") is None


SILENT = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/site-packages/rekindle/runtime/task.py", line 90, in write_partition
    return str(spec.storage.get(name).decode())
rekindle.runtime.storage.BucketError: s3://b/x/runs: no answer

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1097)
"""


def test_a_bucket_that_kept_silent_is_not_the_user_s_fault():
    failure = classify(SILENT)
    assert isinstance(failure.error, StoreRefused)
    assert str(failure.error).startswith("stage delays: an executor cannot use the store: s3://b/x/runs: no answer\n")
    assert not failure.fatal
    ended = classify_job_error(
        RuntimeError(
            f"Job aborted due to stage failure: ... most recent failure: Lost task 0.3 in stage 1.0: {SILENT}"
        ),
        STAGE,
        Results(damaged=False),
    )
    assert ended.fatal
    assert isinstance(ended.error, StoreRefused)


@pytest.mark.requirement("S6-10", "S7-5")
def test_a_job_that_spark_gives_up_over_a_lost_map_side_is_no_failure_of_the_users():
    text = (
        "Job aborted due to stage failure: A shuffle map stage with indeterminate output was failed and retried. "
        "However, Spark cannot rollback the ResultStage 7 to re-process the input data, and has to fail this job."
    )
    assert is_indeterminate(RuntimeError(text))
    assert not is_indeterminate(RuntimeError(f"Job aborted due to stage failure: most recent failure: {PYTHON}"))


class SaidBySpark(Exception):
    """As py4j raises it."""


SaidBySpark.__module__ = "py4j.protocol"


@pytest.mark.parametrize(
    ("text", "is_raised"),
    [
        (f"Job aborted due to stage failure: Task 2 failed 5 times, most recent failure: {PYTHON}", True),
        ("An exception was thrown from the Python worker: Traceback ...", True),
        ("Job aborted ... most recent failure: Lost task 0.3 in stage 1.0: ExecutorLostFailure (executor 3)", False),
        ("FetchFailed(BlockManagerId(1, 127.0.0.3, 41, None), shuffleId=0)", False),
        ("Job aborted ... most recent failure: Lost task: java.io.IOException: No space left on device", False),
        (f"Job aborted ... most recent failure: Lost task 0.3 in stage 1.0: {SILENT}", False),
        (READ, False),
        ("org.apache.spark.SparkException: Job 12 cancelled part of cancelled job group paths-reached-plan", False),
    ],
)
def test_what_a_task_has_raised_is_told_from_what_was_lost(text, is_raised):
    assert is_raised_by_a_task(SaidBySpark(text)) is is_raised
    assert not is_raised_by_a_task(ValueError(text))
