"""What one run's attempts were, and what of them was wasted, from Spark's event log. Pure: events in, figures out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Attempt:
    """One attempt of a task. Times are seconds since the epoch; `ended` is None where the log does not say.

    Attributes:
        task: Spark's stage, and the partition.
    """

    task: tuple[int, int]
    executor: str
    launched: float
    ended: float | None
    succeeded: bool
    speculative: bool

    def seconds(self, until: float) -> float:
        """Its length, as far as it was before `until`."""
        ended = until if self.ended is None else min(self.ended, until)
        return max(0.0, ended - self.launched)


@dataclass(frozen=True)
class Executor:
    """Where an executor was, and from when until when, in seconds since the epoch; `removed` None: it is there."""

    id: str
    node: str
    added: float
    removed: float | None = None


def events_of(text: str) -> Iterator[dict[str, Any]]:
    """The events of a log that Spark may still be writing."""
    for line in text.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            return


def attempts_of(events: Iterable[Mapping[str, Any]]) -> list[Attempt]:
    """All attempts, in the order of their launch."""
    found: dict[int, Attempt] = {}
    for event in events:
        if event["Event"] in ("SparkListenerTaskStart", "SparkListenerTaskEnd"):
            found[event["Task Info"]["Task ID"]] = _attempt(event)
    return list(found.values())


def _attempt(event: Mapping[str, Any]) -> Attempt:
    info = event["Task Info"]
    return Attempt(
        task=(event["Stage ID"], info["Partition ID"]),
        executor=info["Executor ID"],
        launched=info["Launch Time"] / 1000,
        ended=info["Finish Time"] / 1000 or None,
        succeeded=event.get("Task End Reason", {}).get("Reason") == "Success",
        speculative=info["Speculative"],
    )


def executors_of(events: Iterable[Mapping[str, Any]]) -> list[Executor]:
    """All executors that ever were, in the order in which they came."""
    found: dict[str, Executor] = {}
    for event in events:
        if event["Event"] == "SparkListenerExecutorAdded":
            number, node = event["Executor ID"], event["Executor Info"].get("Attributes", {}).get("NODE", "")
            found[number] = Executor(number, node, event["Timestamp"] / 1000)
        elif event["Event"] == "SparkListenerExecutorRemoved" and event["Executor ID"] in found:
            number = event["Executor ID"]
            found[number] = replace(found[number], removed=event["Timestamp"] / 1000)
    return list(found.values())


def winners(attempts: Iterable[Attempt]) -> set[Attempt]:
    """Of each task the attempt that succeeded first; what succeeded before and was lost since counts as wasted work."""
    won: dict[tuple[int, int], Attempt] = {}
    for one in sorted((one for one in attempts if one.succeeded), key=lambda one: one.ended or 0.0):
        won.setdefault(one.task, one)
    return set(won.values())


def figures(events: Iterable[Mapping[str, Any]], until: float) -> dict[str, Any]:
    """Of a run that had its answer at `until`, as JSON types.

    attempts, speculative: how many were started; wasted: seconds of those that did not win; starts:
    [node -> [when, whether it was speculative]]; executors: [node, added, removed or None].
    """
    events = list(events)
    executors = executors_of(events)
    attempts = [one for one in attempts_of(events) if one.launched <= until]
    node_of, won = {one.id: one.node for one in executors}, winners(attempts)
    starts: dict[str, list[tuple[float, bool]]] = {}
    for one in attempts:
        starts.setdefault(node_of.get(one.executor, ""), []).append((one.launched, one.speculative))
    return {
        "attempts": len(attempts),
        "speculative": sum(one.speculative for one in attempts),
        "wasted": round(sum((one.seconds(until) for one in attempts if one not in won), 0.0), 3),
        "starts": starts,
        "executors": [(one.node, one.added, one.removed) for one in executors],
    }


def has_ended(events: Iterable[Mapping[str, Any]]) -> bool:
    """Whether all jobs that were begun have ended."""
    kinds = Counter(str(one["Event"]) for one in events)
    return 0 < kinds["SparkListenerJobStart"] <= kinds["SparkListenerJobEnd"]
