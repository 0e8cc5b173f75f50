"""`Pipeline.run`: from a built pipeline and a SparkSession to a result, or to one clear error."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rekindle.api.connector_report import WireSink
from rekindle.api.last_words import encode_last_words
from rekindle.api.settings import (
    CONF_PREFIX,
    DRIVER_ERROR,
    DRIVER_TAKEOVER,
    EXPLAIN,
    RekindleSettings,
    SettingsError,
)
from rekindle.pipeline.errors import PipelineError
from rekindle.pipeline.explain import explain, mermaid
from rekindle.pipeline.graph import PipelineGraph
from rekindle.runtime.configure import missing_levers
from rekindle.runtime.connector_facts import sink_facts
from rekindle.runtime.errors import EnvironmentProblem, PipelineMisuse, RekindleError
from rekindle.runtime.job_master import JobMaster
from rekindle.runtime.open_run import open_run
from rekindle.runtime.relations import check_reads_buckets
from rekindle.runtime.result import RunResult, result_of
from rekindle.runtime.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAST_WORDS = Path("/dev/termination-log")
"""In a container on Kubernetes, which tells what is written there with the exit code; elsewhere there is none."""


def run_pipeline(
    build: Callable[[], PipelineGraph],
    spark: SparkSession | None = None,
    *,
    store: str | os.PathLike[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> RunResult:
    """Run a pipeline on a session; the active or a new one when none is given.

    Args:
        build: gives the built pipeline.
        store: folder or `s3://bucket/prefix` of the stored results; else `spark.rekindle.recovery.store`, else
            `.rekindle/<name>` below the working directory.
        options: options by name (`{"speculation.enabled": "true"}`), over those of the session.

    Raises:
        PipelineError: the pipeline cannot be built; nothing has run.
        PipelineFailed: a stage failed; the message has the user's own traceback.
        PipelineMisuse: the pipeline or an option asks for what cannot be.
        StoreRefused: the store is another's, in use, damaged or full.
        EnvironmentProblem: the session cannot run pipelines.
    """
    try:
        graph = build()
    except PipelineError as error:
        _report(error, _misuse(error), spark)
        raise
    session, sinks = _session(spark), list[WireSink]()
    try:
        result = _run(graph, session, store, options or {}, sinks)
    except RekindleError as error:
        _report(error, error, session, sinks)
        raise
    _leave_last_words("", sinks)  # also instead of a run's before this one, whose error the program has caught
    return result


def _misuse(error: PipelineError) -> RekindleError:
    return PipelineMisuse(error.message, remedy=error.remedy, stage=error.stage)


def _run(
    graph: PipelineGraph,
    session: SparkSession,
    store: str | os.PathLike[str] | None,
    options: Mapping[str, str],
    sinks: list[WireSink],
) -> RunResult:
    """`sinks`: is given what is told of them at the end."""
    conf = _conf(session)
    conf.update({f"{CONF_PREFIX}{name}": value for name, value in options.items()})
    settings = _settings(conf)
    wanted = conf.get(EXPLAIN, "")
    if wanted:
        _explain(graph, settings, conf, wanted)
        return RunResult(graph.name, "explained", {}, {})
    named = store or settings.recovery.store or Path(".rekindle") / graph.name
    place = Store.at(named, conf, patience=settings.recovery.store_timeout)
    if place.folder is None:
        check_reads_buckets(session)
    for lever in missing_levers(conf, settings):
        _say(lever)
    run = open_run(
        place,
        graph,
        volumes=settings.recovery.volumes,
        lease_seconds=settings.recovery.lease_seconds,
        history=settings.recovery.run_history_limit,
        takeover=conf.get(DRIVER_TAKEOVER, "false") == "true",
        reruns_changed=settings.recovery.changed_stages == "rerun",
        say=_say,
    )
    previous = _interrupt_on_sigterm()
    try:
        master = JobMaster(graph, session, settings, run)
        try:
            master.run()
        finally:
            sinks += sink_facts(master.state)
    finally:
        run.lease.release()
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)
    return result_of(graph, place, run.layout.number)


def _say(text: str) -> None:
    print(f"rekindle: {text}", file=sys.stderr, flush=True)


def _session(spark: SparkSession | None) -> SparkSession:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise EnvironmentProblem(
            "Spark Connect sessions cannot run a pipeline: they have no SparkContext to run jobs on",
            remedy="run the program with spark-submit (a classic session), or with `rekindle run`",
        )
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":
        raise EnvironmentProblem(
            "PYSPARK_PIN_THREAD is switched off: jobs would run with the groups and settings of other threads' jobs",
            remedy="leave PYSPARK_PIN_THREAD out of the environment",
        )
    from pyspark.sql import SparkSession as Session

    found = spark or Session.getActiveSession() or Session.builder.getOrCreate()
    if not hasattr(found, "_jsparkSession"):
        raise EnvironmentProblem(
            f"{type(found).__name__} is not a classic SparkSession",
            remedy="run the program with spark-submit, or with `rekindle run`",
        )
    return found


def _conf(session: SparkSession) -> dict[str, str]:
    conf = dict(session.sparkContext.getConf().getAll())
    runtime = session.conf.getAll
    conf.update({str(key): str(value) for key, value in runtime.items() if str(key).startswith(CONF_PREFIX)})
    return conf


def _settings(conf: Mapping[str, str]) -> RekindleSettings:
    try:
        return RekindleSettings.from_spark_conf(conf)
    except SettingsError as error:
        raise PipelineMisuse(str(error), remedy="docs/options.md lists every option") from error


def _explain(graph: PipelineGraph, settings: RekindleSettings, conf: Mapping[str, str], wanted: str) -> None:
    options = settings.to_core().speculation
    if wanted == "mermaid":
        print(mermaid(graph, options))
    else:
        print(explain(graph, options, missing_levers(conf, settings)))


def _interrupt_on_sigterm() -> Any:
    """SIGTERM ends a run as Ctrl-C does: jobs cancelled, lease released. Only in the main thread."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    try:
        return signal.signal(signal.SIGTERM, interrupt)
    except ValueError:
        return None


def _report(
    raised: Exception, error: RekindleError, spark: SparkSession | None, sinks: Sequence[WireSink] = ()
) -> None:
    """Leave the error for the launcher and for Kubernetes, and let it end the program on one screen.

    A driver that `rekindle run` started has a file to leave it in; a Python traceback would only hide it.
    """
    from pyspark.sql import SparkSession as Session

    _leave_last_words(f"{error.kind}: {error}", sinks)
    session = spark or Session.getActiveSession()
    path = _conf(session).get(DRIVER_ERROR) if session is not None else None
    if not path:
        return
    Path(path).write_text(json.dumps(error.to_record()))
    shown = sys.excepthook

    def hook(kind: type[BaseException], value: BaseException, trace: Any) -> None:
        if value is raised:
            print(f"rekindle: {error}", file=sys.stderr, flush=True)
        else:
            shown(kind, value, trace)

    sys.excepthook = hook


def _leave_last_words(said: str, sinks: Sequence[WireSink]) -> None:
    if LAST_WORDS.is_file():
        with contextlib.suppress(OSError):  # the driver's log has them too
            LAST_WORDS.write_text(encode_last_words(said, sinks))
