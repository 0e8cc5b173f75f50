"""What a run beside a slow node comes to, from what its driver printed and what the operator said; and the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.on_kubernetes.contenders import Contender
from benchmarks.results import Run, Spread, markdown, ratio, spread
from rekindle.controller.clock import parse_time
from rekindle.controller.resources import Object

_OPERATOR = "rekindle.dev/operator"

HEAD = (
    "attempts",
    "of them copies",
    "wasted task-s",
    "blocked after s",
    "late starts",
    "false blocks",
    "blocks refused",
    "cores busy",
)
"""
    copies          attempts that Spark's speculation started
    wasted          seconds of attempts that did not win, until the answer was there
    blocked after   seconds from the first job's start until the sick node was blocked
    late starts     attempts that started on the sick node: of Rekindle's between the block and the end of the last
                    drain there, of the others the copies
    false blocks    blocks of nodes that were not sick
    blocks refused  that a share of the nodes was blocked already, or the namespace may cause none
    cores busy      of this machine, on average: with all of them busy, others' work was measured too
"""


@dataclass(frozen=True)
class Note:
    """One Kubernetes event of the operator's. `at` is in seconds since the epoch, `about` a kind."""

    at: float
    reason: str
    about: str
    name: str
    text: str


@dataclass(frozen=True)
class Told:
    """One run: the driver's `result` (apps/figures.py), what the operator said, and which node was to be sick."""

    result: Mapping[str, Any]
    notes: Sequence[Note]
    sick: str | None


def notes_of(events: Iterable[Object], since: float) -> list[Note]:
    """What the operator has said since then, in order."""
    notes = [
        Note(
            parse_time(one["eventTime"]), one["reason"], one["regarding"]["kind"], one["regarding"]["name"], one["note"]
        )
        for one in events
        if one.get("reportingController") == _OPERATOR
    ]
    return sorted((one for one in notes if one.at >= since), key=lambda one: one.at)


def run_of(contender: Contender, number: int, told: Told) -> Run:
    """The run in figures; `details` has those of HEAD by their names, None where there is nothing to tell."""
    result, blocks = told.result, _blocks(told.notes)
    blocked_at = next((at for node, at in blocks if node == told.sick), None)
    late = _late_starts(result, told.sick, blocked_at) if contender.is_rekindle else _copies_on(result, told.sick)
    figures = (
        result["attempts"],
        result["speculative"],
        result["wasted"],
        None if blocked_at is None else round(blocked_at - result["began"], 1),
        late,
        sum(node != told.sick for node, _ in blocks),
        sum(note.reason == "NodeBlockRefused" for note in told.notes),
        round(result["busy"], 2),
    )
    details = {**dict(zip(HEAD, figures, strict=True)), "answer": result["answer"]}
    return Run(contender.name, number, round(result["seconds"], 3), details=details)


def _blocks(notes: Iterable[Note]) -> list[tuple[str, float]]:
    """(node, when), of every block that came to be."""
    return [(one.name, one.at) for one in notes if (one.reason, one.about) == ("NodeBlocked", "Node")]


def _copies_on(result: Mapping[str, Any], node: str | None) -> int | None:
    if node is None:
        return None
    return sum(bool(speculative) for _, speculative in result["starts"].get(node, ()))


def _late_starts(result: Mapping[str, Any], node: str | None, blocked_at: float | None) -> int | None:
    """Attempts that started on a node from its block until the last executor that it then had was gone."""
    if node is None or blocked_at is None:
        return None
    there = [
        result["ended"] if removed is None else removed
        for where, added, removed in result["executors"]
        if where == node and added <= blocked_at and (removed is None or removed > blocked_at)
    ]
    drained_at = max(there, default=blocked_at)
    return sum(bool(blocked_at < at < drained_at) for at, _ in result["starts"].get(node, ()))


def with_answer(run: Run, right: Any) -> Run:
    """The run, or a failed one where its answer is another than that of the first run."""
    if right is None or run.error is not None or run.details["answer"] == right:
        return run
    return Run(run.contender, run.number, error=f"the answer is {run.details['answer']}, that of the first run {right}")


def table(found: Sequence[Run], names: Sequence[str], reference: str) -> str:
    """Seconds by contender, by the reference's, and what else was counted: medians and ranges."""
    rows = [
        (name, spread(found, name), ratio(found, name, reference), *(_counted(found, name, title) for title in HEAD))
        for name in names
    ]
    return markdown(("", "seconds", f"times {reference}", *HEAD), rows)


def _counted(found: Iterable[Run], name: str, title: str) -> str | None:
    """Whole numbers as such; None where no good run has the figure."""
    good = [run.details[title] for run in found if run.contender == name and run.error is None]
    values = [one for one in good if one is not None]
    if not values:
        return None
    if not all(isinstance(one, int) for one in values):
        return str(Spread(median(values), min(values), max(values), len(values)))
    several = f" ({min(values)} – {max(values)})" if len(values) > 1 else ""
    return f"{median(values):g}{several}"
