"""A built pipeline: stages in topological order, checked, frozen."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.pipeline.stage import Stage


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
