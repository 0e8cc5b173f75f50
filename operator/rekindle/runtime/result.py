"""What `Pipeline.run` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rekindle.pipeline.graph import PipelineGraph
from rekindle.runtime.report import build_report
from rekindle.runtime.store import Store


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished run.

    Attributes:
        pipeline: its name.
        state: "finished", or "explained" when only an explanation was asked for.
        sinks: sink stage -> path where its result is.
        report: the report as `--report` writes it (docs/report.md).
    """

    pipeline: str
    state: str
    sinks: Mapping[str, str]
    report: Mapping[str, Any]

    def digest(self, stage: str) -> str | None:
        """Digest of a stage's result: equal for equal rows, whatever their order; None if not comparable, or not made.

        Raises KeyError for a stage that is none of the pipeline's.
        """
        if self.state == "explained":
            return None
        for one in self.report["stages"]:
            if one["name"] == stage:
                digest: str | None = one["digest"]
                return digest
        raise KeyError(f"pipeline {self.pipeline!r} has no stage {stage!r}")


def result_of(graph: PipelineGraph, store: Store, run: int) -> RunResult:
    sinks = {stage.name: stage.sink.target for stage in graph.stages if stage.sink is not None}
    return RunResult(graph.name, "finished", sinks, build_report(store, run))
