"""A measured job, in its driver: it waits for its executors and for a go, runs, and tells what its event log has.

What it prints for the benchmark, each a line of a word and JSON:

    ready     the nodes of its executors; it goes on when the file GO is there
    progress  how many tasks of the active stages are done
    moment    what it was told to look out for has come: here a node is to become sick
    result    answer, seconds, and `figures`
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from benchmarks.on_kubernetes.apps.figures import events_of, executors_of, figures, has_ended

EVENTS, GO = Path("/tmp/events"), Path("/tmp/go")
NEVER, HALF, SECOND_STAGE = "never", "half", "second-stage"

_EXECUTORS_SECONDS, _GO_SECONDS, _LOG_SECONDS = 180.0, 120.0, 30.0
_LOOK_SECONDS, _PROGRESS_SECONDS = 0.2, 5.0


def measure(job: Callable[[SparkSession], int], moment: str) -> None:
    """Run `job`, whose answer is a number, and tell; `moment`: NEVER, HALF or SECOND_STAGE."""
    EVENTS.mkdir(parents=True, exist_ok=True)  # before Spark, which wants it there
    spark = SparkSession.builder.getOrCreate()
    _wait("executors", lambda: _are_there(spark.sparkContext), _EXECUTORS_SECONDS)
    _tell("ready", nodes=[one.node for one in executors_of(_events())])
    _wait("the go", GO.exists, _GO_SECONDS)
    threading.Thread(target=_look_on, args=(spark.sparkContext, moment), daemon=True).start()
    began = time.time()
    answer = job(spark)
    ended = time.time()
    _wait("the end of Spark's event log", lambda: has_ended(_events()), _LOG_SECONDS)
    found = figures(_events(), ended)
    _tell("result", answer=answer, seconds=ended - began, began=began, ended=ended, **found)
    spark.stop()


def _tell(word: str, **what: Any) -> None:
    print(word, json.dumps(what), flush=True)


def _wait(what: str, seen: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not seen():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not there within {seconds:g} s: {what}")
        time.sleep(_LOOK_SECONDS)


def _are_there(context: SparkContext) -> bool:
    """Whether as many executors take tasks as were asked for, and the event log has them."""
    wanted = int(context.getConf().get("spark.executor.instances") or 1)
    jvm = context._jsc
    assert jvm is not None
    taking = len(jvm.sc().statusTracker().getExecutorInfos()) - 1
    return taking >= wanted and sum(one.removed is None for one in executors_of(_events())) >= wanted


def _events() -> list[dict[str, Any]]:
    """As far as they are written; there is one application."""
    return [event for path in sorted(EVENTS.iterdir()) for event in events_of(path.read_text(errors="replace"))]


def _look_on(context: SparkContext, moment: str) -> None:
    """Tells of progress and of the moment, until the driver ends."""
    tracker, told, next_line = context.statusTracker(), moment == NEVER, time.monotonic() + _PROGRESS_SECONDS
    while True:
        stages = [one for number in tracker.getActiveStageIds() if (one := tracker.getStageInfo(number)) is not None]
        done, tasks = sum(one.numCompletedTasks for one in stages), sum(one.numTasks for one in stages)
        if not told and stages and _has_come(moment, done, tasks, max(one.stageId for one in stages)):
            told = True
            _tell("moment", at=time.time())
        if time.monotonic() >= next_line:
            next_line += _PROGRESS_SECONDS
            _tell("progress", done=done, tasks=tasks)
        time.sleep(_LOOK_SECONDS)


def _has_come(moment: str, done: int, tasks: int, newest_stage: int) -> bool:
    """`newest_stage`: of the active ones; a stage is active once all that it reads has been written."""
    return newest_stage > 0 if moment == SECOND_STAGE else 2 * done >= tasks
