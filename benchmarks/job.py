"""One job in one session, as a program: the harness in `measure.py` starts it and speaks to it by lines.

    job.py WORKLOAD CONTENDER --store DIR [--option NAME=VALUE ...]

It says `ready` when the session is there with all executors, waits for a line, does the job, says in JSON how
many seconds that took, waits for another line and ends.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pyspark import cloudpickle
from pyspark.sql import SparkSession

import rekindle
from benchmarks.sources import ticks
from benchmarks.tpch import peers, pipeline, scores

Job = Callable[[SparkSession, Path], object]
"""Called with a session and a folder for what is stored between stages."""

JOBS: dict[tuple[str, str], Job] = {
    ("profits", "rekindle"): lambda spark, folder: pipeline.pipeline.run(spark),
    ("profits", "by-hand"): lambda spark, folder: peers.profits_by_hand(spark, str(folder), partitioned=True),
    ("profits", "by-hand-lean"): lambda spark, folder: peers.profits_by_hand(spark, str(folder), partitioned=False),
    ("profits", "plain"): lambda spark, folder: peers.profits_plain(spark),
    ("scores", "rekindle"): lambda spark, folder: scores.pipeline.run(spark),
    ("scores", "plain"): lambda spark, folder: peers.scores_plain(spark),
    ("ticks-even", "rekindle"): lambda spark, folder: ticks.pipeline("even").run(spark),
    ("ticks-even", "plain"): lambda spark, folder: ticks.plain(spark, "even"),
    ("ticks-skewed", "rekindle"): lambda spark, folder: ticks.pipeline("skewed").run(spark),
    ("ticks-skewed", "plain"): lambda spark, folder: ticks.plain(spark, "skewed"),
}


def make_session(contender: str, store: Path, settings: list[str]) -> SparkSession:
    """A session; one that a pipeline runs in is configured as any user's is."""
    builder = SparkSession.builder
    if contender == "rekindle":
        pairs = (setting.partition("=") for setting in settings)
        options = {name: value for name, _, value in pairs}
        builder = rekindle.configure(builder, store=str(store), options=options)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session


def wait_for_executors(session: SparkSession) -> None:
    """Wait until the session has all the cores that it asked for; whoever started us has a deadline."""
    context = session.sparkContext
    wanted = int(context.getConf().get("spark.cores.max", "1"))
    status = context._jsc.sc().statusStore()
    while True:
        executors = status.executorList(True)
        if sum(executors.apply(number).totalCores() for number in range(executors.size())) >= wanted:
            return
        time.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload")
    parser.add_argument("contender")
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--option", action="append", default=[])
    options = parser.parse_args()
    register: Any = cloudpickle.register_pickle_by_value
    register(ticks)  # executors have no `benchmarks`
    session = make_session(options.contender, options.store, options.option)
    wait_for_executors(session)
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.monotonic()
    JOBS[options.workload, options.contender](session, options.store)
    print(json.dumps({"seconds": time.monotonic() - began}), flush=True)
    sys.stdin.readline()
    session.stop()


if __name__ == "__main__":
    main()
