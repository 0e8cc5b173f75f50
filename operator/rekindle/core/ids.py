"""Names of the things that the job master decides about. Each has a text form that `parse` reads back."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

_VERTEX = re.compile(r"(?P<vertex>.+)\[(?P<subtask>\d+)\]", re.DOTALL)
_ATTEMPT = re.compile(r"(?P<vertex_id>.+)#(?P<attempt>\d+)", re.DOTALL)
_PARTITION = re.compile(r"(?P<vertex>.+)/(?P<subtask>\d+)", re.DOTALL)


NO_NODE = ("*", "unknown")
"""What stands for the node of what runs everywhere, or nobody knows where."""


@dataclass(frozen=True, slots=True, order=True)
class ExecutionVertexID:
    """Subtask `subtask` (from 0) of job vertex `vertex`: "delays[3]"."""

    vertex: str
    subtask: int

    def __str__(self) -> str:
        return f"{self.vertex}[{self.subtask}]"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError when `text` is not the text form of such an id."""
        match = _matched(_VERTEX, text)
        return cls(match["vertex"], int(match["subtask"]))


@dataclass(frozen=True, slots=True, order=True)
class ExecutionAttemptID:
    """One run of an execution vertex: "delays[3]#1". Attempt numbers start at 0 and are never used again."""

    vertex_id: ExecutionVertexID
    attempt: int

    def __str__(self) -> str:
        return f"{self.vertex_id}#{self.attempt}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError when `text` is not the text form of such an id."""
        match = _matched(_ATTEMPT, text)
        return cls(ExecutionVertexID.parse(match["vertex_id"]), int(match["attempt"]))


@dataclass(frozen=True, slots=True, order=True)
class ResultPartitionID:
    """What subtask `subtask` of job vertex `vertex` writes: "delays/3"."""

    vertex: str
    subtask: int

    def __str__(self) -> str:
        return f"{self.vertex}/{self.subtask}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError when `text` is not the text form of such an id."""
        match = _matched(_PARTITION, text)
        return cls(match["vertex"], int(match["subtask"]))


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no id of the form {pattern.pattern!r}")
    return match
