"""What a driver's REST API answers: a list of stages or of tasks, written by code that nobody vouches for.

Read are the fields that are used, strictly; the others are passed over. What a reader may be made to spend is
bounded before anything is parsed: 16 MiB of `{},{},{},...` would become half a GiB of dictionaries.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    TypeAdapter,
    ValidationError,
)
from pydantic.alias_generators import to_camel
from pydantic_core import from_json

from rekindle.api.model import problems
from rekindle.controller.clock import parse_time
from rekindle.controller.text import plain, shortened

_MOST_VALUES = 1_000_000
"""In one answer, at least as many as there are; Spark's own for 10,000 finished tasks has 580,000."""

_CLOCK_SECONDS = 2.0
_NAME_BYTES = 200
_ID_BYTES = 64
_DESCRIPTION = 500
_STREAMING = re.compile(r"\nrunId = [0-9a-f-]{36}\nbatch = ")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}GMT")


class Unusable(Exception):
    """An answer that nothing can be made of. The text says what is wrong with it."""


def one_line(text: str, most: int) -> str:
    """The beginning of `text` in at most `most` bytes, on one line, without what is no character to be seen."""
    if text.isascii() and text.isprintable() and len(text) <= most:
        return text
    seen = (character if character.isprintable() else " " for character in plain(text[: 4 * most]))
    return shortened(" ".join("".join(seen).split()), most)


def _epoch_seconds(text: object) -> float:
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        raise ValueError("expected a time such as 2026-11-22T20:00:00.123GMT")
    return parse_time(text.replace("GMT", "Z"))


_Int = Annotated[int, Field(ge=0, lt=2**31)]
_Long = Annotated[int, Field(ge=0, lt=2**63)]
_Time = Annotated[float, BeforeValidator(_epoch_seconds), Field(ge=0)]
_Name = Annotated[str, AfterValidator(lambda text: one_line(text, _NAME_BYTES))]
_Id = Annotated[str, AfterValidator(lambda text: one_line(text, _ID_BYTES))]


class _Wire(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", strict=True, frozen=True)


class WireStage(_Wire):
    """`StageData`."""

    stage_id: _Int
    attempt_id: _Int
    name: _Name
    description: object = None
    """What the job says of itself; whatever it is, an answer is used all the same."""

    num_tasks: _Int
    num_active_tasks: Annotated[int, Field(ge=-(2**31), lt=2**31)]
    """Spark itself counts below zero, once tasks whose output was lost have ended a second time (`Resubmitted`)."""

    num_complete_tasks: _Int
    num_failed_tasks: _Int
    num_completed_indices: _Int | None = None
    first_task_launched_time: _Time | None = None

    @property
    def is_streaming(self) -> bool:
        """By how Structured Streaming describes the jobs of a batch."""
        return isinstance(self.description, str) and _STREAMING.search(self.description[-_DESCRIPTION:]) is not None


class _InputMetrics(_Wire):
    bytes_read: _Long
    records_read: _Long


class _ShuffleReadMetrics(_Wire):
    remote_bytes_read: _Long
    local_bytes_read: _Long
    records_read: _Long


class _TaskMetrics(_Wire):
    input_metrics: _InputMetrics
    shuffle_read_metrics: _ShuffleReadMetrics


class WireTask(_Wire):
    """`TaskData`."""

    index: _Int
    attempt: _Int
    launch_time: _Time
    duration: _Long | None = None
    """Milliseconds; Spark leaves out a 0."""

    executor_id: _Id
    status: str
    speculative: bool
    task_metrics: _TaskMetrics | None = None

    @property
    def running(self) -> bool:
        """Not so while its result is fetched: `GET RESULT`, which neither status asked for finds."""
        return self.status == "RUNNING"

    def input(self) -> tuple[int | None, int | None]:
        """Bytes and records of storage and shuffles; None where they are not known, so zeros while it runs too."""
        if self.task_metrics is None:
            return None, None
        stored, shuffled = self.task_metrics.input_metrics, self.task_metrics.shuffle_read_metrics
        size = stored.bytes_read + shuffled.remote_bytes_read + shuffled.local_bytes_read
        records = stored.records_read + shuffled.records_read
        return (None, None) if self.running and not size and not records else (size, records)


_Entry = TypeVar("_Entry", bound=_Wire)


def entries(body: bytes | bytearray, kind: type[_Entry], most: int) -> list[_Entry]:
    """The first `most` entries of a JSON list. Raises Unusable."""
    if sum(body.count(mark) for mark in (b",", b"[", b"{")) > _MOST_VALUES:
        raise Unusable(f"the answer is too large: it has more than {_MOST_VALUES} values")
    with suppress(ValidationError):
        return _all_of(kind).validate_json(body)[:most]
    return _one_by_one(body, kind, most)


@cache
def _all_of(kind: type[_Entry]) -> TypeAdapter[list[_Entry]]:
    """Reads a list at once, and makes no objects of what is passed over."""
    return TypeAdapter(Annotated[list[kind], FailFast()])  # type: ignore[arg-type, valid-type]


def _one_by_one(body: bytes | bytearray, kind: type[_Entry], most: int) -> list[_Entry]:
    """The same of an answer with which something is wrong: what it is, or that it is beyond the first `most`."""
    try:
        found = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Unusable(f"the answer is not JSON: {error}") from None
    if not isinstance(found, list):
        raise Unusable("the answer is not a list")
    return [_entry(kind, number, item) for number, item in enumerate(found[:most])]


def _entry(kind: type[_Entry], number: int, item: object) -> _Entry:
    try:
        return kind.model_validate(item)
    except ValidationError as error:
        raise Unusable(f"entry {number} of the answer: {problems(error, kind)[0]}") from None


def check_head(status: int, headers: Mapping[str, str]) -> None:
    """Raises Unusable where no plain success follows."""
    if status != HTTPStatus.OK:
        raise Unusable(f"the driver answered {status}{_meaning(status)}")
    if headers.get("Content-Encoding", "identity") != "identity":
        raise Unusable("the answer is compressed, which was not asked for")


JWS_FILTER = "org.apache.spark.ui.JWSFilter"
"""Spark's filter of the UI that lets in whoever signs a token with a key that is in its settings."""


def _meaning(status: int) -> str:
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return f": its UI asks for a login (spark.ui.filters); known here is {JWS_FILTER}'s, with the key in sparkConf"
    if status == HTTPStatus.NOT_FOUND:
        return ": it has no such application"
    return ": redirects are not followed" if 300 <= status < 400 else ""


def ahead(date: str, asked: float, answered: float) -> float | None:
    """Seconds by which the clock behind an HTTP Date is ahead of ours, which told when we asked and were answered.

    None where it is no date; 0.0 for less than half the time between and 2 s, since a Date has whole seconds and is
    of any moment between.
    """
    try:
        told = datetime.strptime(date, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    difference = told + 0.5 - (asked + answered) / 2
    return difference if abs(difference) >= _CLOCK_SECONDS + (answered - asked) / 2 else 0.0
