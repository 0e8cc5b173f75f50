"""How a stage's result reaches the stages that read it."""

from __future__ import annotations

from enum import StrEnum


class ExchangeMode(StrEnum):
    """The kinds of intermediate result a user can ask for (FLIP-1, `S6-10` to `S6-12`)."""

    BLOCKING = "blocking"
    """Stored, complete before a consumer starts, read as often as needed. The default."""

    PIPELINED = "pipelined"
    """Not stored: computed inside its one consumer, and restarted with it."""

    CACHED = "cached"
    """Persisted by Spark's executors, for any number of consumers, computed again where it was lost."""
