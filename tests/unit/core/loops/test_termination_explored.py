"""Small graphs with loops, in every order of delivery: they end, and never with work pending.

The networks have one delivery at a time and short channels, and feedback channels that hold one item and spill the
rest. Each rule of the protocol is broken once on purpose, to see that this is noticed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rekindle.core.loops.alignment import Alignment
from rekindle.core.loops.entry_operator import EntryOperator
from rekindle.core.loops.feedback import Buffered, Data, FeedbackChannel
from rekindle.core.loops.head_operator import HeadOperator
from rekindle.core.loops.regular_operator import RegularOperator
from rekindle.core.loops.termination import Step
from rekindle.core.loops.termination_attempt import OperatorStatus, TerminationAttempt
from tests.unit.core.loops.explorer import explore
from tests.unit.core.loops.graphs import SMALL, Graph
from tests.unit.core.loops.network import Broken, Network


def network(name: str, tokens: int, fuel: int, parks: str = "", to_all: bool = False) -> Network:
    graph: Graph = SMALL[name]()
    graph.parks = frozenset(parks.split())
    return Network(graph, tokens=tokens, fuel=fuel, to_all=to_all)


EXPLORED: dict[str, tuple[Any, ...]] = {
    "no loop": ("no_loop", 2, 0, "b c"),
    "one loop": ("one_loop", 2, 2),
    "one loop, with an operator that takes its time": ("one_loop", 2, 1, "b t"),
    "one loop, whose body makes more than it takes": ("one_loop", 1, 2, "", True),
    "two ways to feed back": ("two_feedbacks", 1, 2, "t"),
    "an output that the head does not see": ("output_beside_the_loop", 1, 2, "out"),
    "two loops in sequence": ("two_in_sequence", 1, 2),
    "two loops side by side, joined": ("side_by_side", 1, 1),
    "nested": ("nested", 1, 2),
    "nested, with an operator that takes its time": ("nested", 1, 1, "u"),
    "nested, whose bodies make more than they take": ("nested", 1, 1, "", True),
    "nested, with a way past the inner loop": ("nested_and_joined", 1, 2),
    "three deep": ("inner_loop_beside_the_middle_one", 1, 2),
}


@pytest.mark.requirement("S10-2", "S10-3", "S10-4", "S10-5", "S10-16", "S10-19", "S10-20", "S10-21", "S10-22", "S9-5")
@pytest.mark.parametrize("case", EXPLORED)
def test_whatever_is_delivered_first_all_end_and_nothing_is_pending(case):
    explored = explore(network(*EXPLORED[case]))
    assert explored.ends


# -- broken on purpose -----------------------------------------------------------------------------------


def ends_at_the_first_visit(self: HeadOperator, status: OperatorStatus) -> Step[HeadOperator]:
    ended = replace(self, attempt_id=1, terminated=True)
    return Step(ended, (TerminationAttempt.completion(self.scope, 1),))


def ends_whatever_it_saw(self: HeadOperator, attempt: TerminationAttempt, status: OperatorStatus) -> Any:
    return _returned(replace(self, saw_data=False), attempt, status)


def ends_whoever_is_busy(self: HeadOperator, attempt: TerminationAttempt, status: OperatorStatus) -> Any:
    return _returned(self, replace(attempt, status=OperatorStatus.IDLE), OperatorStatus.IDLE)


def drops_an_abort(self: HeadOperator, attempt: TerminationAttempt, status: OperatorStatus) -> Any:
    step = _returned(self, attempt, status)
    return step if step.operator.terminated else Step(self)


def forgets_what_it_saw(self: HeadOperator, attempt: TerminationAttempt, status: OperatorStatus) -> Any:
    return _visited(replace(self, saw_data=False), attempt, status)


def aligns_nothing(self: Alignment, channel: str, attempt: TerminationAttempt) -> Any:
    after, _ = _receive(self, channel, attempt)
    changed = after is not self
    return (replace(after, arrived=after.channels), after.newest) if changed else (after, None)


def takes_what_has_not_been_round(self: TerminationAttempt, level: int) -> bool:
    return False


def overtakes_what_is_spilled(self: FeedbackChannel[int], item: Any) -> Buffered[int]:
    if isinstance(item, TerminationAttempt):
        return Buffered(replace(self, memory=(*self.memory, item)))
    return _put(self, item)


def does_not_wait(self: EntryOperator, attempt: TerminationAttempt) -> bool:
    return True


def sends_without_what_it_collected(
    self: EntryOperator, attempts: list[TerminationAttempt], status: OperatorStatus
) -> Step[EntryOperator]:
    emit = tuple(replace(one.adding(status), visited_level=self.scope.level) for one in attempts)
    return Step(replace(self, current=emit[-1] if emit else self.current), emit)


def accepts_stale_attempts(self: Alignment, channel: str, seen: TerminationAttempt) -> bool:
    return False


def ends_while_it_is_busy(
    self: RegularOperator, channel: str, attempt: TerminationAttempt, status: OperatorStatus
) -> Step[RegularOperator]:
    return _on_attempt(self, channel, attempt, OperatorStatus.IDLE)


def sees_nothing_spilled(self: FeedbackChannel[int]) -> OperatorStatus:
    busy = any(isinstance(item, Data) for item in self.memory)
    return OperatorStatus.BUSY if busy else OperatorStatus.IDLE


_returned, _visited, _receive = HeadOperator._returned, HeadOperator._visited, Alignment.receive
_put, _on_attempt = FeedbackChannel.put, RegularOperator.on_attempt

MUTANTS: dict[str, tuple[str, type, dict[str, Any]]] = {
    "a loop ends without a second visit": ("one loop", HeadOperator, {"_attempt": ends_at_the_first_visit}),
    "a loop ends though data came in between": ("one loop", HeadOperator, {"_returned": ends_whatever_it_saw}),
    "a loop ends though an operator is busy": (
        "one loop, with an operator that takes its time",
        HeadOperator,
        {"_returned": ends_whoever_is_busy},
    ),
    "an attempt that was aborted is not repeated": ("one loop", HeadOperator, {"_returned": drops_an_abort}),
    "an inner head says nothing of data that it saw": ("nested", HeadOperator, {"_visited": forgets_what_it_saw}),
    "nobody waits for all channels": ("two ways to feed back", Alignment, {"receive": aligns_nothing}),
    "what has not been round a loop counts outside of it": (
        "nested",
        TerminationAttempt,
        {"_is_inside": takes_what_has_not_been_round},
    ),
    "what is spilled is overtaken, and is not pending": (
        "one loop",
        FeedbackChannel,
        {"put": overtakes_what_is_spilled, "status": property(sees_nothing_spilled)},
    ),
    "a pass enters a further loop before its attempt was round there": (
        "three deep",
        EntryOperator,
        {"_has_been_round": does_not_wait},
    ),
    "an entry forgets what an attempt has collected": (
        "three deep",
        EntryOperator,
        {"_send": sends_without_what_it_collected},
    ),
    "stale attempts are accepted": (
        "an output that the head does not see",
        Alignment,
        {"_is_stale": accepts_stale_attempts},
    ),
    "an operator ends while it is busy": ("no loop", RegularOperator, {"on_attempt": ends_while_it_is_busy}),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_rule_that_is_broken_on_purpose_is_noticed(mutant, monkeypatch):
    case, where, patches = MUTANTS[mutant]
    for name, broken in patches.items():
        monkeypatch.setattr(where, name, broken)
    with pytest.raises(Broken):
        explore(network(*EXPLORED[case]))
