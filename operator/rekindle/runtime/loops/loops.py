"""The loops of a pipeline: what each is made of, where it lies in the store, and when that goes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rekindle.pipeline.fingerprint import stage_fingerprint
from rekindle.pipeline.graph import PipelineGraph
from rekindle.pipeline.stage import Stage
from rekindle.runtime.layout import RunLayout, everywhere
from rekindle.runtime.loops.activation_log import ActivationLog
from rekindle.runtime.loops.batches import BatchStore, LoopFolder
from rekindle.runtime.loops.frames import Frames
from rekindle.runtime.loops.loop_run import LoopRun
from rekindle.runtime.loops.progress import ProgressOfLoops
from rekindle.runtime.scheduler import Scheduler
from rekindle.runtime.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MadeOf = tuple[tuple[str, tuple[int, ...]], ...]
"""Names of a loop's inputs, each with the versions of its partitions."""


class Loops:
    """Of one run."""

    def __init__(
        self, graph: PipelineGraph, store: Store, layout: RunLayout, scheduler: Scheduler, writer: str
    ) -> None:
        self._graph, self._store, self._layout = graph, store, layout
        self._scheduler, self._writer = scheduler, writer
        self.progress = ProgressOfLoops()

    def frame(self, stage: Stage, session: SparkSession, inputs: Mapping[str, DataFrame], made_of: MadeOf) -> DataFrame:
        """The result of a stage that is a loop: it runs here, to its end. What it has made of the same inputs before is
        not made again."""
        assert stage.loop is not None
        folder = LoopFolder(self._layout.loop(stage.name, self._which(stage, made_of)), self._layout.volumes)
        self._forget_others(stage.name, folder.prefix)
        batches = BatchStore(stage.name, self._store, folder, self._scheduler, session, self._writer)
        first, *tables = stage.inputs
        run = LoopRun(
            stage.loop,
            stage.partitions,
            Frames(session, stage.partitions),
            batches,
            ActivationLog(self._store, f"{folder.prefix}/activations", self._writer),
            {name: inputs[name] for name in tables},
            tell=self.progress.tell,
        )
        return run.run(inputs[first])

    def _forget_others(self, stage: str, folder: str) -> None:
        """What was made of inputs that are not there any more."""
        for name in _of(self._store, self._layout, stage):
            if name != folder:
                _delete(self._store, self._layout, name)

    def _which(self, stage: Stage, made_of: MadeOf) -> str:
        """The same for the same code over the same inputs."""
        told = json.dumps([stage_fingerprint(self._graph, stage.name), made_of])
        return hashlib.sha256(told.encode()).hexdigest()[:16]


def begin_anew(store: Store, layout: RunLayout, stage: str, writer: str) -> None:
    """What a loop has made counts no more. Its records stay, so that no driver from before can add to them."""
    for folder in _of(store, layout, stage):
        ActivationLog(store, f"{folder}/activations", writer).begin_anew()


def forget_all(store: Store, layout: RunLayout) -> None:
    """What loops have made; their results are in stages."""
    _delete(store, layout, layout.loops)


def _of(store: Store, layout: RunLayout, stage: str) -> list[str]:
    """The folders of a loop."""
    return [f"{layout.loops}/{name}" for name in store.names(layout.loops) if name.rpartition("-")[0] == stage]


def _delete(store: Store, layout: RunLayout, folder: str) -> None:
    """On all volumes."""
    for one in everywhere(folder, layout.volumes):
        store.delete(one)
