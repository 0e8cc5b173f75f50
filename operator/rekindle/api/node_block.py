"""The NodeBlock resource: a node that gets no new tasks for a while, who asked for it and why."""

import re
from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, field_validator, model_validator

from rekindle.api.application_status import Condition
from rekindle.api.model import ApiModel
from rekindle.api.names import BLOCK_NAME_PATTERN, QUALIFIED_NAME_PATTERN
from rekindle.api.spark_application import Metadata

_RFC3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")


def parse_instant(value: object) -> datetime:
    """The moment of an RFC 3339 text. ValueError otherwise."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    if isinstance(value, str) and _RFC3339.fullmatch(value):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            pass
    raise ValueError(f"{value!r} is not a time of RFC 3339; write such as 2026-01-31T12:00:00Z")


def format_instant(value: datetime) -> str:
    """A moment as RFC 3339, in UTC."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


Instant = Annotated[
    datetime,
    BeforeValidator(parse_instant),
    PlainSerializer(format_instant, return_type=str, when_used="json"),
]
"""A moment, written as RFC 3339 has it."""

ApplicationName = Annotated[str, Field(pattern=QUALIFIED_NAME_PATTERN, max_length=127)]
"""namespace/name."""


class NodeBlockMetadata(Metadata):
    """Kubernetes' object metadata; a NodeBlock lies in no namespace."""

    name: str = Field(pattern=BLOCK_NAME_PATTERN, max_length=253)
    """The block's name, a DNS name such as the node's."""

    namespace: str = ""
    """None."""


class NodeBlockSpec(ApiModel):
    """Which node is blocked, how, from when and until when."""

    node: str = Field(min_length=1, max_length=253)
    """The node's name. It cannot be changed: another node is blocked by another NodeBlock."""

    action: Literal["MarkBlocked", "MarkBlockedAndEvacuateTasks"] = "MarkBlocked"
    """`MarkBlocked`: no new tasks, running ones go on. `MarkBlockedAndEvacuateTasks`: running ones are moved too."""

    start: Instant | None = None
    """When the block begins, RFC 3339. Unset: at once."""

    end: Instant
    """When the block ends, RFC 3339. Of several blocks of a node the latest end counts."""

    cause: str = Field(default="", max_length=1024)
    """Why, in a sentence."""

    applications: list[ApplicationName] = Field(
        default_factory=list, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """The applications that asked for the block, as namespace/name. Empty: a person did."""

    remove_when_done: bool = False
    """Remove the block when the last of the applications that asked for it has ended, though its end is later."""

    @field_validator("applications")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        if len(set(value)) < len(value):
            raise ValueError("an application is there twice")
        return value

    @model_validator(mode="after")
    def _ends_after_its_start(self) -> Self:
        if self.start is not None and self.end <= self.start:
            raise ValueError("end is not after start; choose a later end")
        return self


class BlockCondition(Condition):
    """One aspect of the block, as `kubectl wait --for=condition=...` reads it."""

    type: str
    """Active: the node gets no new tasks."""


class NodeBlockStatus(ApiModel):
    """What the operator made of the block. Written by the operator only."""

    observed_generation: int = 0
    """The generation of the spec that the operator last acted on."""

    active: bool = False
    """Whether the node is blocked by this object now."""

    conditions: list[BlockCondition] = Field(default_factory=list)
    """Active, and why not: NotBegun, Over, ApplicationsEnded, NoSuchNode, NodeNotSelected, TooManyBlocked, DryRun,
    Refused, SpecInvalid."""


class NodeBlock(ApiModel):
    """A node that gets no new Spark tasks for a while (FLIP-224's MARK_BLOCKED)."""

    api_version: Literal["rekindle.dev/v1beta2"]
    """The version of this schema."""

    kind: Literal["NodeBlock"]
    """The kind of the object."""

    metadata: NodeBlockMetadata
    """Name and labels."""

    spec: NodeBlockSpec
    """Which node is blocked, how and until when."""

    status: NodeBlockStatus = Field(default_factory=NodeBlockStatus)
    """What the operator made of it; written by the operator only."""
