"""What a job master tells of the two ends of its job: of each source that is read by splits, and of each sink.

Names, kinds and reasons are the driver's, which is user code: they are short, and there are not many. A state of commit
that this version does not know is one of a newer driver.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from rekindle.api.wire import Wire

MOST_CONNECTORS = 50
"""Sources of one job, and sinks, that are told of."""

MOST_REASON, MOST_KIND = 500, 100
"""Characters."""

_Name = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[\w.-]+$")]
_Kind = Annotated[str, StringConstraints(max_length=MOST_KIND)]
_Reason = Annotated[str, StringConstraints(max_length=MOST_REASON)]
_Count = Annotated[int, Field(ge=0, le=10**12)]


class CommitState(StrEnum):
    """Of a sink: how far its result is from being seen outside."""

    PENDING = "Pending"
    """It is not complete, or waits for the rest of the pipeline."""

    COMMITTING = "Committing"
    """It is being made visible."""

    COMMITTED = "Committed"
    REFUSED = "Refused"
    """It was not begun: what is there may be the same already, or is somebody else's."""

    FAILED = "Failed"
    """It was begun and has not come to its end."""

    UNKNOWN = "Unknown"
    """What a newer driver tells."""

    @classmethod
    def _missing_(cls, value: object) -> "CommitState":
        return cls.UNKNOWN


class WireSplits(Wire):
    """Splits of one subtask."""

    subtask: _Count
    splits: _Count


class WireSource(Wire):
    """A source that is read by splits; the counts are those of `core.split_progress`, of the driver that tells.

    `records`: rows of the partitions that are stored, None where rows are not stored as they are read;
    `concurrent_attempts`: whether two attempts of a subtask may read at a time, and `reason` why not.
    """

    name: _Name
    kind: _Kind = ""
    subtasks: _Count
    splits: _Count
    assigned: _Count = 0
    finished: _Count = 0
    reread: _Count = 0
    returned: _Count = 0
    readers: _Count = 0
    no_more_splits: _Count = 0
    most: WireSplits | None = None
    fewest: WireSplits | None = None
    records: _Count | None = None
    concurrent_attempts: bool = True
    reason: _Reason = ""


class WireSink(Wire):
    """A sink. `written`: its partitions that are complete, of which `records` are the rows; `aborted`: attempts whose
    output is in none of them; `commit_reason`: why it was refused, or has failed."""

    name: _Name
    kind: _Kind = ""
    mode: _Kind = ""
    concurrent_attempts: bool = False
    reason: _Reason = ""
    partitions: _Count
    written: _Count = 0
    records: _Count = 0
    aborted: _Count = 0
    commit: _Kind = CommitState.PENDING.value
    commit_reason: _Reason = ""
