"""A built pipeline: stages in topological order, checked, frozen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rekindle.pipeline.fingerprint import stage_fingerprint
from rekindle.pipeline.stage import Stage
from rekindle.pipeline.translation import to_job_graph

if TYPE_CHECKING:
    from rekindle.core.job_graph import JobGraph
    from rekindle.core.options import SpeculationOptions


@dataclass(frozen=True, slots=True)
class PipelineGraph:
    """What `Pipeline.build` returns. `stages` come after the stages they read."""

    name: str
    stages: tuple[Stage, ...]

    def stage(self, name: str) -> Stage:
        """Raises KeyError for a name that is no stage."""
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(f"pipeline {self.name!r} has no stage {name!r}")

    def consumers(self, name: str) -> tuple[Stage, ...]:
        """The stages that read `name`, in topological order."""
        return tuple(stage for stage in self.stages if name in stage.inputs)

    def to_job_graph(self, speculation: SpeculationOptions) -> JobGraph:
        """The job graph that the core decides over; see `translation`."""
        return to_job_graph(self, speculation)

    def fingerprint(self, name: str) -> str:
        """A digest of what the stage computes, equal in every process; see `fingerprint`."""
        return stage_fingerprint(self, name)
