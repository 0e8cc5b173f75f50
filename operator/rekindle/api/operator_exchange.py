"""What the operator and the job master of a pipeline tell each other (design: one exchange a round, started by the
operator, with the bearer token that it made for the attempt).

The operator POSTs an `ExchangeRequest` to `PATH`, and is answered with an `ExchangeAnswer`. Each side passes over
fields that it does not know: the path changes where that does not do.
"""

from typing import Annotated, TypeVar

from pydantic import Field, StringConstraints, ValidationError
from pydantic_core import from_json

from rekindle.api.job_report import JobReport
from rekindle.api.model import problems
from rekindle.api.wire import Wire

PATH = "/v1/exchange"
PORT = 7098
PORT_NAME = "rekindle-xchg"

PORT_VARIABLE = "REKINDLE_EXCHANGE_PORT"
"""The port on which a job master answers; without it, it does not."""

TOKEN_VARIABLE = "REKINDLE_EXCHANGE_TOKEN_SHA256"
"""The SHA-256 (hex) of the token. Who reads a pod's environment learns nothing that opens the port."""

MOST_REQUEST_BYTES = 16 * 1024 * 1024
MOST_ANSWER_BYTES = 1024 * 1024

_MOST_BLOCKS, _MOST_EXECUTORS, _MOST_WISHES = 1_000, 20_000, 100
MOST_CAUSE = 1_000

_Node = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[!-~]+$")]
_Cause = Annotated[str, StringConstraints(max_length=MOST_CAUSE)]


class WireBlock(Wire):
    """`node` gets no new tasks until `end` (epoch seconds)."""

    node: _Node
    end: Annotated[float, Field(ge=0)]
    cause: _Cause


class Wish(Wire):
    """The job master wants `node` blocked for so many seconds from now on, as tasks of its own are slow there."""

    node: _Node
    seconds: Annotated[float, Field(gt=0)]
    cause: _Cause


class ExchangeRequest(Wire):
    """All blocks in force, and where each executor is: [executor id -> node]. `number` changes when they do."""

    number: Annotated[int, Field(ge=0)] = 0

    blocks: Annotated[tuple[WireBlock, ...], Field(max_length=_MOST_BLOCKS, strict=False)] = ()
    nodes: Annotated[dict[Annotated[str, StringConstraints(max_length=64)], _Node], Field(max_length=_MOST_EXECUTORS)]


class ExchangeAnswer(Wire):
    """`excludes`: the job master keeps new tasks off blocked nodes itself; its executors need no draining. `number`: of
    the request that it had taken up when it answered, which need not be the one that is answered."""

    number: int = 0

    wishes: Annotated[tuple[Wish, ...], Field(max_length=_MOST_WISHES, strict=False)] = ()
    excludes: bool = False

    job: JobReport | None = None
    """The job as it is; None where it has not begun, or is too long to be told."""


_Message = TypeVar("_Message", ExchangeRequest, ExchangeAnswer)


def encode(message: ExchangeRequest | ExchangeAnswer) -> bytes:
    """As JSON."""
    return message.model_dump_json(by_alias=True).encode()


def decode(body: bytes | bytearray, kind: type[_Message]) -> _Message:
    """What was told. ValueError names the first thing that is wrong."""
    try:
        return kind.model_validate(from_json(body, allow_inf_nan=False))
    except ValidationError as error:
        raise ValueError(str(problems(error, kind)[0])) from None


def fitting(blocks: list[WireBlock], nodes: dict[str, str], number: int = 0) -> ExchangeRequest:
    """The request, as far as there is room: blocks that end last, and some of the executors."""
    latest = sorted(blocks, key=lambda block: -block.end)[:_MOST_BLOCKS]
    some = dict(list(nodes.items())[:_MOST_EXECUTORS])
    return ExchangeRequest(blocks=tuple(latest), nodes=some, number=number)


def wished(wishes: list[Wish], *, excludes: bool, number: int = 0, job: JobReport | None = None) -> ExchangeAnswer:
    """The answer, as far as there is room."""
    return ExchangeAnswer(wishes=tuple(wishes[:_MOST_WISHES]), excludes=excludes, number=number, job=job)
