"""What a driver leaves for Kubernetes to tell with its exit code: how far its sinks are, and why it has failed.

It lies in the container's termination log, which keeps 4,096 bytes. The sinks are its first line, a JSON object; the
rest is for people. A driver's end may be all that the operator hears of it: the job is over as soon as its sinks are.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import ValidationError

from rekindle.api.connector_report import WireSink
from rekindle.api.wire import Wire

_MOST_SINKS = 2_000
"""Bytes of them. The last are left out."""

_MOST_SAID = 2_000
"""Characters: of more bytes than 4,096 Kubernetes keeps the beginning, maybe cut within a character."""

_REASONS = {"sinks": {"__all__": {"reason", "commit_reason"}}}


class _Sinks(Wire):
    sinks: tuple[WireSink, ...] = ()


@dataclass(frozen=True, slots=True)
class LastWords:
    """`said`: why it has failed; empty where it has not. `sinks`: without the reasons of their commits, which `said`
    has."""

    said: str = ""
    sinks: tuple[WireSink, ...] = ()


def encode_last_words(said: str, sinks: Iterable[WireSink]) -> str:
    """As the termination log takes it; empty where there is nothing to say."""
    told = list(sinks)
    while told and len(line := _line(told).encode()) > _MOST_SINKS:
        told.pop()
    first = f"{line.decode()}\n" if told else ""
    return f"{first}{said[:_MOST_SAID]}"


def decode_last_words(text: str) -> LastWords:
    """Of what a container has left; whatever its first line is, it is text where it is not of sinks."""
    first, _, rest = text.partition("\n")
    if first.startswith('{"sinks":'):
        try:
            return LastWords(rest, _Sinks.model_validate_json(first, strict=False).sinks)
        except ValidationError:
            pass
    return LastWords(text)


def _line(sinks: list[WireSink]) -> str:
    return _Sinks(sinks=tuple(sinks)).model_dump_json(by_alias=True, exclude_defaults=True, exclude=_REASONS)
