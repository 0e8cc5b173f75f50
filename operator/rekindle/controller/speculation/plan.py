"""What is done about slow tasks of an application that runs (FLIP-168), as steps. Pure: facts in, steps out.

In this order: the nodes of slow tasks are asked to be blocked (S2-36); once a node is blocked, the executors on it are
drained, so that nothing new runs there (S3-3), and duplicates of them are placed elsewhere (S2-38). Spark itself makes
the copies of the tasks. Each step is worked out from what there is now: an operator that begins anew finds the
duplicates by their label, and makes none twice (S2-47).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rekindle.controller.speculation.detection import SlowTask
from rekindle.controller.speculation.executors import Executor
from rekindle.core.ids import NO_NODE
from rekindle.core.skew import Blame

START_SECONDS = 20.0
"""What an executor takes to start, about: less work than this, and a duplicate comes too late."""

MOVE_SECONDS = 30.0
"""What a drained executor is given to move its blocks, before it is ended with its tasks."""


@dataclass(frozen=True, slots=True)
class AskForBlock:
    """Have a node blocked, or its block renewed, for so many seconds and no longer than the application says."""

    node: str
    cause: str
    seconds: float = math.inf


@dataclass(frozen=True, slots=True)
class Drain:
    """No new tasks for an executor; those that it runs go on, and what it holds is moved. `at_once`: they do not."""

    executor: Executor
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Make `count` executors like this one, on none of these nodes."""

    original: Executor
    count: int
    avoid: frozenset[str]


@dataclass(frozen=True, slots=True)
class Remove:
    """A duplicate that is not needed any more: drain it."""

    executor: Executor


Step = AskForBlock | Drain | Duplicate | Remove


@dataclass(frozen=True, slots=True)
class Situation:
    """What there is.

    Attributes:
        blocked: [node -> whether its tasks are to be moved], the nodes whose blocks are in force.
        instances: executors that the application asks for; None where they come and go with the work.
        slots: tasks that an executor runs at once.
        most_duplicates: the application's share.
        block_seconds: how long the node of a slow task is blocked; 0 blocks nothing.
        quiet_seconds: for how long nothing has been slow.
        waiting_seconds: about how long the tasks would take that wait for a slot, one after the other.
        is_dry_run: blocks are asked for, and say what they would do; nothing else is done.
        copies_itself: a job master copies slow tasks, keeps new ones off blocked nodes, and asks for blocks.
        is_answered: the driver has just told what runs. One that does not may be about to end.
        evacuates: the application allows that its executors on slow nodes are ended.
        now: epoch seconds.
    """

    executors: Sequence[Executor]
    slow: Sequence[SlowTask]
    blocked: Mapping[str, bool]
    instances: int | None
    slots: int
    most_duplicates: int
    block_seconds: float
    quiet_seconds: float
    waiting_seconds: float
    is_answered: bool
    is_dry_run: bool = False
    evacuates: bool = False
    now: float = 0.0
    copies_itself: bool = False


def steps_for(there: Situation) -> list[Step]:
    """The next steps, in order."""
    if there.is_dry_run:
        return _blocks(there)
    return [*_blocks(there), *_drains(there), *_duplicates(there), *_removals(there)]


def _of_nodes(there: Situation) -> list[SlowTask]:
    """Slow tasks whose nodes make them slow."""
    return [one for one in there.slow if one.blame is Blame.NODE and one.node not in NO_NODE]


def _blocks(there: Situation) -> list[Step]:
    if there.block_seconds <= 0 or there.copies_itself:
        return []
    causes: dict[str, str] = {}
    for one in _of_nodes(there):
        causes.setdefault(one.node, f"slow task {one.task}: {one.evidence}")
    return [AskForBlock(node, cause) for node, cause in causes.items()]


def _drains(there: Situation) -> list[Step]:
    """At most as many as are left elsewhere that can take their tasks: a job must not stand still for a slow node."""
    found: list[Step] = []
    left = Counter(one.profile for one in _elsewhere(there))
    evacuated = _evacuated(there)
    for one in there.executors:
        if one.node not in there.blocked or not one.is_running:
            continue
        at_once = there.blocked[one.node] or one in evacuated
        if there.copies_itself and not at_once:
            continue
        if one.is_live and left[one.profile] > 0:
            left[one.profile] -= 1
            found.append(Drain(one, at_once))
        elif one.is_drained and at_once:  # somebody wants more than was asked for before
            found.append(Drain(one, at_once))
    return found


def _evacuated(there: Situation) -> list[Executor]:
    """Those whose tasks need not end: it is proven that their node is slow, they had time to give away what others may
    fetch from them, and there is room elsewhere: as many executors as there were, or no task that waits for a slot."""
    if not there.evacuates:
        return []
    proven = {one.node for one in _of_nodes(there) if one.is_proven}
    elsewhere = Counter(one.profile for one in _elsewhere(there))
    originals = Counter(one.profile for one in there.executors if not one.is_duplicate)
    return [
        one
        for one in there.executors
        if one.is_drained
        and one.node in proven
        and there.now >= one.told_at + MOVE_SECONDS
        and elsewhere[one.profile] >= (originals[one.profile] if there.waiting_seconds else 1)
    ]


def _elsewhere(there: Situation) -> list[Executor]:
    """Executors that take tasks and are on no blocked node."""
    return [one for one in there.executors if one.is_live and one.is_running and one.node not in there.blocked]


def _duplicates(there: Situation) -> list[Step]:
    live = [one for one in there.executors if one.is_live]
    if not there.is_answered or not live:
        return []
    duplicates = [one for one in live if one.is_duplicate]
    wanted = min(_wanted(there, live, duplicates), there.most_duplicates)
    if wanted <= len(duplicates) or not _is_worthwhile(there):
        return []
    # Those that are blocked it keeps off anyway, by a label; autoscalers make no node for a pod that names hosts.
    avoid = {one.node for one in _of_nodes(there)} - set(there.blocked)
    needed = next((one.profile for one in there.executors if one.node in there.blocked), None)
    originals = [
        one for one in there.executors if one.is_running and not one.is_duplicate and needed in (None, one.profile)
    ]
    if not originals:
        return []
    # One that goes on for a while is taken for the model: what it is made of must be there to be read.
    original = min(originals, key=lambda one: (one.node in there.blocked, one.is_terminating, one.id))
    return [Duplicate(original, wanted - len(duplicates), frozenset(avoid))]


def _is_worthwhile(there: Situation) -> bool:
    """Whether a duplicate would come in time: an executor takes a while to start, and slows its neighbours meanwhile.

    Where no task waits there is a slot elsewhere as soon as one of the others ends.
    """
    elsewhere = there.slots * len(_elsewhere(there))
    return not elsewhere or there.waiting_seconds / elsewhere >= START_SECONDS


def _wanted(there: Situation, live: Sequence[Executor], duplicates: Sequence[Executor]) -> int:
    """Duplicates that there should be: for the copies of slow tasks, and in place of originals that are gone.

    A driver counts duplicates as its own, and makes no executor anew while there are as many as it wants: in place of
    one that is drained, or that has died since, it is made here.
    """
    on_slow = [one for one in there.executors if one.node in there.blocked]
    may_be_copied = [one for one in _of_nodes(there) if one.copies > 0]
    slow_here = {one.task for one in may_be_copied if one.node in there.blocked or not there.block_seconds}
    for_copies = math.ceil(len(slow_here) / there.slots)
    drained = [one for one in on_slow if one.is_drained and not one.is_duplicate]
    missing = len(drained)
    if there.instances is not None and (duplicates or drained):
        missing = max(missing, there.instances - (len(live) - len(duplicates)))
    return max(for_copies, missing)


def _removals(there: Situation) -> list[Step]:
    """Duplicates beyond what the application asks for, once nothing is slow and no node of its own is blocked."""
    is_over = not there.slow and there.quiet_seconds >= there.block_seconds
    if not there.is_answered or not is_over or any(one.node in there.blocked for one in there.executors):
        return []
    live = [one for one in there.executors if one.is_live]
    duplicates = [one for one in live if one.is_duplicate]
    surplus = len(live) - there.instances if there.instances is not None else len(duplicates)
    return [Remove(one) for one in duplicates[: max(0, surplus)]]
