"""What is wrong with a pipeline, said before anything runs."""

from __future__ import annotations


class PipelineError(ValueError):
    """A pipeline cannot be built as written.

    Args:
        message: what is wrong, with the name of the thing.
        remedy: what to change.
        stage: the stage it is about; None where it is about the pipeline as a whole.
    """

    def __init__(self, message: str, *, remedy: str, stage: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.stage = stage

    def __str__(self) -> str:
        return f"{self.message}\n-> {self.remedy}"
