"""Goes through all states that a network can be in, each once: whatever is delivered first."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

from rekindle.core.loops.alignment import Alignment
from rekindle.core.loops.entry_operator import EntryOperator
from rekindle.core.loops.feedback import FeedbackChannel
from rekindle.core.loops.head_operator import HeadOperator
from rekindle.core.loops.regular_operator import RegularOperator
from rekindle.core.loops.scopes import StreamScope
from rekindle.core.loops.termination_attempt import TerminationAttempt
from tests.unit.core.loops.network import Broken, Feedback, Network, State


@dataclass(frozen=True)
class Explored:
    states: int
    moves: int
    ends: int


def explore(network: Network, at_most: int = 1_000_000) -> Explored:
    """Raises Broken, with the way there, where an invariant does not hold, or where a state cannot come to an end."""
    first = network.start()
    seen: dict[Any, int] = {key(first): 0}
    came_from: list[tuple[int, str]] = [(0, "start")]
    leads_to: list[list[int]] = [[]]
    frontier, ends, moves = [(0, first)], list[int](), 0
    while frontier:
        number, state = frontier.pop()
        following = 0
        try:
            for label, move in network.moves(state):
                following += 1
                after = move()
                known = key(after)
                if known not in seen:
                    seen[known] = len(came_from)
                    came_from.append((number, label))
                    leads_to.append([])
                    frontier.append((seen[known], after))
                leads_to[seen[known]].append(number)
            if not following:
                network.check_over(state)
                ends.append(number)
        except AssertionError as error:
            raise Broken(f"{error}\n" + "\n".join(way_to(number, came_from))) from error
        moves += following
        assert len(came_from) <= at_most, f"more than {at_most} states"
    _check_all_end(ends, leads_to, came_from)
    return Explored(len(came_from), moves, len(ends))


def _check_all_end(ends: list[int], leads_to: list[list[int]], came_from: list[tuple[int, str]]) -> None:
    """From every state an end can be reached: nothing goes round for ever without a way out."""
    good, frontier = set(ends), list(ends)
    while frontier:
        new = [one for one in leads_to[frontier.pop()] if one not in good]
        good.update(new)
        frontier += new
    bad = next((number for number in range(len(came_from)) if number not in good), None)
    if bad is not None:
        raise Broken("no end can be reached any more after\n" + "\n".join(way_to(bad, came_from)))


def way_to(number: int, came_from: list[tuple[int, str]]) -> list[str]:
    way = []
    while number:
        number, label = came_from[number]
        way.append(label)
    return way[::-1]


def key(state: State) -> Any:
    """What tells states apart: attempts by how far they are behind their head's latest, for the protocol compares ids
    and never counts with them. Otherwise a loop that is busy for long would be in ever new states."""
    latest = tuple(
        (one.scope, one.attempt_id) for one in state.operators if isinstance(one, HeadOperator) and one.attempt_id
    )
    if not latest:
        return state
    parts = (*state.operators, *state.queues, *state.feedback)
    return (*[_relative(one, latest) for one in parts], state.parked, state.left)


@lru_cache(maxsize=100_000)
def _relative(value: Any, latest: tuple[tuple[StreamScope, int], ...]) -> Any:
    match value:
        case TerminationAttempt(scope, attempt_id, _, completed) if attempt_id:
            behind = 0 if scope is None or completed == scope.level else attempt_id - dict(latest)[scope] - 1
            return replace(value, attempt_id=behind)
        case HeadOperator():
            return value.terminated, value.saw_data, bool(value.attempt_id), _relative(value.inputs, latest)
        case tuple():
            return tuple([_relative(one, latest) for one in value])
        case Alignment() | EntryOperator() | RegularOperator() | Feedback() | FeedbackChannel():
            return type(value), *[_relative(getattr(value, one.name), latest) for one in fields(value)]
        case _:
            return value
