"""The end of a run: its results are made visible where they belong."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import wait
from functools import partial
from typing import Any

from rekindle.api.connector_report import CommitState
from rekindle.pipeline.sinks import DataSourceSink, FileSink, SparkSink, WrittenElsewhere
from rekindle.pipeline.stage import Stage
from rekindle.runtime.adding import publish_beside
from rekindle.runtime.data_source_sink import abort, commit, digest_of, messages_of
from rekindle.runtime.deadline import Helper
from rekindle.runtime.errors import Fenced, PipelineMisuse, RekindleError
from rekindle.runtime.publication import Publication, WriteFailed, publish_once
from rekindle.runtime.publish import check_whole, publish, sink_of
from rekindle.runtime.sink_folder import contents_of
from rekindle.runtime.spark_sink import write_by_spark
from rekindle.runtime.state import RunState
from rekindle.runtime.storable import parsed_schema

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.25
_END_SECONDS = 20.0


class Publisher:
    """Of one run, in the job master's thread.

    Args:
        flush: makes durable what was noted.
        tell: answers the operator, as of a time.
    """

    def __init__(self, state: RunState, flush: Callable[[], None], tell: Callable[[float], None]) -> None:
        self._state, self._flush, self._tell = state, flush, tell

    def publish_all(self) -> None:
        """All sinks, in their order. Raises what `publish` and `publish_once` do, when it has been told why."""
        for stage in self._state.graph.stages:
            if stage.sink is None:
                continue
            try:
                self._publish(stage)
            except Fenced:  # whoever has taken over tells what becomes of it
                raise
            except RekindleError as error:
                self._not_committed(stage, error)
                raise
            self._is(stage, CommitState.COMMITTED)

    def _publish(self, stage: Stage) -> None:
        if isinstance(stage.sink, SparkSink):
            self._by_spark(stage, stage.sink)
        elif isinstance(stage.sink, DataSourceSink):
            self._by_writer(stage, stage.sink)
        else:
            self._files(stage)

    def _is(self, stage: Stage, commit: CommitState, reason: str = "") -> None:
        """Tell the operator how far a sink is."""
        self._state.commits[stage.name] = (commit, reason)
        self._tell(time.time())

    def _not_committed(self, stage: Stage, error: RekindleError) -> None:
        """Tell everybody why: it was refused where it must not be, or nothing was begun, and has failed otherwise."""
        begun, _ = self._state.commits.get(stage.name, (CommitState.PENDING, ""))
        has_failed = begun is CommitState.COMMITTING and not isinstance(error, PipelineMisuse)
        commit = CommitState.FAILED if has_failed else CommitState.REFUSED
        log.warning("sink %s: %s: %s", stage.name, commit.value.lower(), error.message)
        self._state.note("SinkNotCommitted", stage=stage.name, state=commit.value, reason=error.message)
        self._is(stage, commit, error.message)

    def _files(self, stage: Stage) -> None:
        sink, state = sink_of(stage), self._state
        if sink is None:
            return
        if sink.keeps_what_is_there:
            self._beside(stage, sink)
            return
        files = publish(
            stage,
            state.open_run.store,
            state.manifests(stage.name),
            state.open_run.identity,
            schema=state.schemas[stage.name],
            fence=partial(self._fence, stage),
        )
        state.note("SinkPublished", stage=stage.name, path=sink.target, files=files)

    def _beside(self, stage: Stage, sink: FileSink) -> None:
        """What the journal says has come to its end is not looked for: somebody may have moved it since."""
        state, manifests = self._state, self._state.manifests(stage.name)
        contents = {**contents_of(state.open_run.identity, manifests), "mode": sink.mode, "place": sink.target}
        if self._before(stage, sink.target) == Publication(contents):
            return
        files = publish_beside(
            stage,
            sink,
            state.open_run.store,
            manifests,
            state.open_run.identity,
            schema=state.schemas[stage.name],
            fence=partial(self._fence, stage, contents=contents),
        )
        state.note("SinkPublished", stage=stage.name, path=sink.target, files=files, contents=contents)
        self._flush()

    def _by_spark(self, stage: Stage, sink: SparkSink) -> None:
        state, manifests = self._state, self._state.manifests(stage.name)
        check_whole(stage, manifests)
        contents = {**contents_of(state.open_run.identity, manifests), "place": sink.place}
        frame = state.inputs.result(stage, state.schemas[stage.name], manifests)
        self._once(stage, sink, contents, partial(write_by_spark, sink, frame))

    def _by_writer(self, stage: Stage, sink: DataSourceSink) -> None:
        """Its commit, and then `abort` for what other attempts have left."""
        state, manifests = self._state, self._state.manifests(stage.name)
        check_whole(stage, manifests)
        messages = messages_of(stage, manifests)
        contents = {
            **contents_of(state.open_run.identity, manifests),
            "files": digest_of(messages),
            "place": sink.place,
        }
        before = self._before(stage, sink.place)
        of = (stage, sink, parsed_schema(state.schemas[stage.name]), state.open_run.identity)
        self._once(stage, sink, contents, partial(commit, *of, messages))
        made = state.committed.manifests.get(stage.name, {}).values()
        lost = {one.message for one in made if one.message is not None} - set(messages)
        if lost and before == Publication():  # else some of them may have been committed
            self._abort(stage, partial(abort, *of, sorted(lost)))

    def _abort(self, stage: Stage, work: Callable[[], None]) -> None:
        """What is visible is right, whatever comes of it."""
        try:
            self.in_background(work, f"{stage.name}-abort", lambda: None)
        except WriteFailed as failed:
            log.warning("sink %s: abort() for attempts that have lost has failed: %s", stage.name, failed)

    def _before(self, stage: Stage, place: str) -> Publication:
        """What earlier drivers have done."""
        return self._state.open_run.facts.publications.get((stage.name, place), Publication())

    def _once(
        self,
        stage: Stage,
        sink: WrittenElsewhere,
        contents: dict[str, object],
        write: Callable[[], None],
    ) -> None:
        """As `publish_once`, in the background."""
        state = self._state
        told = partial(state.note, stage=stage.name, contents=contents)
        group = f"{state.graph.name}-{stage.name}-publish-{state.open_run.writer}"

        def work() -> None:
            state.scheduler.enter_group(group, f"{stage.name}: to {sink.target}")
            write()

        def ended() -> None:
            told("SinkPublished", path=sink.target, files=0)
            self._flush()

        def not_begun() -> None:
            told("SinkNotBegun")
            self._flush()

        publish_once(
            stage,
            sink,
            self._before(stage, sink.place),
            contents,
            begin=partial(self._fence, stage, contents=contents),
            write=partial(self.in_background, work, group, ended),
            not_begun=not_begun,
        )

    def in_background(self, work: Callable[[], None], group: str, ended: Callable[[], None]) -> None:
        """Do what may take long in a thread of its own, which Spark's settings belong to. This one answers the operator
        meanwhile, and ends the jobs of that group where it is fenced or interrupted; `ended` is called when the work
        has come to its end, even so. No task of it is copied: what it writes to may take both.

        Raises WriteFailed for what the work raises; it has begun if a job has, where the work does not say.
        """
        with self._state.scheduler.without_speculation():
            done = Helper("rekindle-publish").ask(work)
            try:
                while not wait([done], _LOOK_SECONDS).done:
                    self._state.open_run.lease.check_renewed()
                    self._tell(time.time())
            except BaseException:
                with contextlib.suppress(Exception):  # what has interrupted it is to be told
                    self._state.scheduler.cancel_group(group)
                wait([done], _END_SECONDS)
                if done.done() and done.exception() is None:
                    ended()
                raise
        try:
            done.result()
        except WriteFailed:
            raise
        except Exception as error:
            raise WriteFailed(error, has_begun=bool(self._state.scheduler.jobs_of(group))) from error
        ended()

    def _fence(self, stage: Stage, **what: Any) -> None:
        """Raises Fenced when another driver has gone on with this run, or has published it."""
        self._state.note("SinkPublishing", stage=stage.name, **what)
        self._flush()
        self._is(stage, CommitState.COMMITTING)
        self._state.open_run.journal.check_kept()
