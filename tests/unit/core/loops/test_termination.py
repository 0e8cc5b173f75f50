"""What each type of operator does with an attempt, message by message (FLIP-15, part III)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from rekindle.core.loops.alignment import ProtocolViolation
from rekindle.core.loops.entry_operator import EntryOperator
from rekindle.core.loops.feedback import Data
from rekindle.core.loops.head_operator import HeadOperator
from rekindle.core.loops.regular_operator import RegularOperator
from rekindle.core.loops.scopes import DEFAULT_SCOPE, StreamScope
from rekindle.core.loops.termination_attempt import OperatorStatus, TerminationAttempt
from tests.unit.core.loops.graphs import Operator, one_loop
from tests.unit.core.loops.network import Network, State
from tests.unit.core.loops.simulation import simulate

BUSY, IDLE = OperatorStatus.BUSY, OperatorStatus.IDLE
OUTER = DEFAULT_SCOPE.nest("outer")
INNER = OUTER.nest("inner")
INNERMOST = INNER.nest("innermost")


def attempt(
    scope: StreamScope | None,
    attempt_id: int = 0,
    *,
    level: int | None = None,
    completed: int | None = None,
    status: OperatorStatus = IDLE,
) -> TerminationAttempt:
    """One that comes from an operator of its own scope, unless `level` says otherwise."""
    own = 0 if scope is None else scope.level
    return TerminationAttempt(scope, attempt_id, own if level is None else level, completed, status)


class Driven:
    """An operator that is given one thing after the other; `sent`: what it broadcast last."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.sent = operator, list[TerminationAttempt]()

    def gets(self, channel: str, one: TerminationAttempt, status: OperatorStatus = IDLE) -> list[TerminationAttempt]:
        step = self.operator.on_attempt(channel, one, status)
        self.operator, self.sent = step.operator, list(step.emit)
        return self.sent

    def gets_data(self, channel: str) -> None:
        self.operator = self.operator.on_data(channel).operator

    def idle(self) -> list[TerminationAttempt]:
        assert isinstance(self.operator, RegularOperator)
        step = self.operator.on_idle()
        self.operator = step.operator
        return list(step.emit)

    def has_ended(self) -> bool:
        return self.operator.terminated


def regular(scope: StreamScope, *channels: str) -> Driven:
    return Driven(RegularOperator.of(scope, frozenset(channels)))


def entry(scope: StreamScope, *channels: str) -> Driven:
    return Driven(EntryOperator.of(scope, frozenset(channels), "head"))


def head(scope: StreamScope, *channels: str) -> Driven:
    return Driven(HeadOperator.of(scope, frozenset(channels)))


# -- the baton -------------------------------------------------------------------------------------------


@pytest.mark.requirement("S10-7", "S10-9")
def test_a_source_sends_an_idle_attempt_without_a_scope():
    sent = TerminationAttempt.of_source()
    assert sent.scope is None
    assert (sent.attempt_id, sent.visited_level, sent.completed_level, sent.status) == (0, 0, 0, IDLE)


@pytest.mark.requirement("S10-17")
@pytest.mark.parametrize(("one", "other", "both"), [(IDLE, IDLE, IDLE), (IDLE, BUSY, BUSY), (BUSY, IDLE, BUSY)])
def test_the_status_of_all_is_busy_if_any_is(one, other, both):
    assert one.and_of(other) is both
    assert attempt(OUTER, status=one).adding(other).status is both


# -- type 3 ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("S10-1")
def test_outside_of_loops_an_operator_ends_when_all_before_it_have_ended():
    one = regular(DEFAULT_SCOPE, "a", "b")
    assert one.gets("a", TerminationAttempt.of_source()) == []
    assert not one.has_ended()
    assert one.gets("b", TerminationAttempt.of_source()) == [TerminationAttempt.of_source()]
    assert one.has_ended()


@pytest.mark.requirement("S10-1", "S10-11")
def test_an_operator_that_is_busy_ends_when_it_is_not():
    one = regular(DEFAULT_SCOPE, "a")
    assert one.gets("a", TerminationAttempt.of_source(), BUSY) == []
    assert not one.has_ended()
    assert one.idle() == [TerminationAttempt.of_source()]
    assert one.has_ended()
    assert one.idle() == []


@pytest.mark.requirement("S10-10", "S10-11")
@pytest.mark.parametrize("status", OperatorStatus)
def test_type_3_adds_its_status_and_broadcasts(status):
    one = regular(OUTER, "a")
    assert one.gets("a", attempt(OUTER, 3), status) == [attempt(OUTER, 3, status=status)]
    assert one.idle() == []


@pytest.mark.requirement("S10-5")
def test_it_waits_for_all_channels_and_collects_what_all_say():
    one = regular(OUTER, "a", "b")
    assert one.gets("a", attempt(OUTER, 1, status=BUSY)) == []
    assert one.gets("b", attempt(OUTER, 1)) == [attempt(OUTER, 1, status=BUSY)]


@pytest.mark.requirement("S10-18")
def test_an_older_attempt_is_ignored():
    one = regular(OUTER, "a", "b")
    one.gets("a", attempt(OUTER, 2))
    assert one.gets("b", attempt(OUTER, 1, status=BUSY)) == []
    assert one.gets("b", attempt(OUTER, 2)) == [attempt(OUTER, 2)]


@pytest.mark.requirement("S10-18")
def test_an_attempt_of_an_outer_scope_is_older_than_one_of_an_inner_scope():
    one = regular(INNER, "a", "b")
    one.gets("a", attempt(INNER, 1))
    assert one.gets("b", attempt(OUTER, 7, level=2, completed=2)) == []
    assert one.gets("b", attempt(INNER, 1)) == [attempt(INNER, 1)]


@pytest.mark.requirement("S10-6", "S10-19")
def test_what_an_operator_collected_it_tells_again_with_the_same_attempt():
    one = regular(INNER, "a")
    one.gets("a", attempt(OUTER, 1, level=2), BUSY)
    again = attempt(OUTER, 1, level=2, completed=2)
    assert one.gets("a", again) == [replace(again, status=BUSY)]
    assert one.gets("a", attempt(OUTER, 2, level=2)) == [attempt(OUTER, 2, level=2)]


@pytest.mark.requirement("S10-6")
def test_behind_a_loop_only_its_completion_counts():
    """E-6: c gets attempts from b in the loop a-b-t-head-b, and acts on the last."""
    c = regular(DEFAULT_SCOPE, "b")
    assert c.gets("b", attempt(OUTER, 0)) == []
    assert c.gets("b", attempt(OUTER, 1)) == []
    assert c.gets("b", attempt(OUTER, 1, completed=1)) == [attempt(None, 1, completed=0)]
    assert c.has_ended()


@pytest.mark.requirement("S10-6", "S10-19")
def test_behind_an_inner_loop_an_outer_attempt_counts_once_it_has_been_round():
    one = regular(OUTER, "loop", "beside")
    assert one.gets("loop", attempt(OUTER, 1, level=2)) == []
    assert one.gets("beside", attempt(OUTER, 1)) == []
    assert one.gets("loop", attempt(OUTER, 1, level=2, completed=2)) == [attempt(OUTER, 1)]


@pytest.mark.requirement("S10-6", "S10-19")
def test_an_attempt_that_leaves_two_loops_at_once_has_been_round_both():
    one = regular(OUTER, "a")
    assert one.gets("a", attempt(OUTER, 1, level=3)) == []
    assert one.gets("a", attempt(OUTER, 1, level=3, completed=3)) == []
    assert one.gets("a", attempt(OUTER, 1, level=3, completed=2)) == [attempt(OUTER, 1)]


def test_data_after_the_end_of_a_channel_is_a_defect():
    one = regular(DEFAULT_SCOPE, "a", "b")
    one.gets("a", TerminationAttempt.of_source())
    one.gets_data("b")
    with pytest.raises(ProtocolViolation, match="channel 'a' brings data after its end"):
        one.gets_data("a")


# -- type 2 ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("S10-8", "S10-12")
@pytest.mark.parametrize("status", OperatorStatus)
def test_an_entry_gives_an_attempt_its_scope_once_all_sources_have_ended(status):
    """E-17: with one of two sources open no attempt begins."""
    one = entry(OUTER, "a", "b")
    assert one.gets("a", TerminationAttempt.of_source()) == []
    one.gets_data("b")
    assert one.gets("b", TerminationAttempt.of_source(), status) == [attempt(OUTER, status=status)]
    assert not one.has_ended()


@pytest.mark.requirement("S10-12", "S10-19", "S10-20")
def test_an_entry_takes_the_outermost_scope_that_has_not_ended():
    one = entry(INNER, "a")
    assert one.gets("a", attempt(OUTER, 4)) == [attempt(OUTER, 4, level=2)]
    assert one.gets("a", attempt(OUTER, 5, completed=1)) == [attempt(INNER)]


@pytest.mark.requirement("S10-12", "S10-20")
def test_a_loop_behind_another_one_begins_when_that_has_ended():
    after = DEFAULT_SCOPE.nest("after")
    one = entry(after, "loop")
    assert one.gets("loop", attempt(OUTER, 2)) == []
    assert one.gets("loop", attempt(OUTER, 2, completed=1)) == [attempt(after)]


@pytest.mark.requirement("S10-12", "S10-15")
def test_an_entry_passes_on_what_its_head_says_and_ends_with_it():
    one = entry(OUTER, "a")
    one.gets("a", TerminationAttempt.of_source())
    assert one.gets("head", attempt(OUTER, 1), BUSY) == [attempt(OUTER, 1, status=BUSY)]
    one.gets_data("head")
    assert one.gets("head", attempt(OUTER, 2)) == [attempt(OUTER, 2)]
    assert one.gets("head", attempt(OUTER, 2, completed=1)) == [attempt(OUTER, 2, completed=1)]
    assert one.has_ended()
    for channel in "a", "head":
        with pytest.raises(ProtocolViolation):
            one.gets_data(channel)


@pytest.mark.requirement("S10-19")
def test_a_pass_waits_at_the_entry_until_its_attempt_has_been_round_there():
    one = entry(INNERMOST, "a")
    assert one.gets("a", attempt(OUTER, 1, level=2)) == [attempt(OUTER, 1, level=3)]
    on_its_way_out = attempt(OUTER, 1, level=2, completed=2)
    assert one.gets("a", on_its_way_out) == []
    round_it = attempt(OUTER, 1, level=3, completed=3, status=BUSY)
    assert one.gets("head", round_it) == [round_it, replace(on_its_way_out, visited_level=3, status=BUSY)]


@pytest.mark.requirement("S10-19")
def test_a_pass_that_overtook_the_first_one_goes_round_first():
    one = entry(INNERMOST, "a")
    assert one.gets("a", attempt(OUTER, 1, level=2, completed=2)) == [attempt(OUTER, 1, level=3)]
    round_it = attempt(OUTER, 1, level=3, completed=3)
    assert one.gets("head", round_it) == [round_it, attempt(OUTER, 1, level=3, completed=2)]


@pytest.mark.requirement("S10-18", "S10-19")
def test_a_pass_that_waits_is_forgotten_when_a_newer_attempt_comes():
    one = entry(INNERMOST, "a")
    one.gets("a", attempt(OUTER, 1, level=2))
    one.gets("a", attempt(OUTER, 1, level=2, completed=2))
    assert one.gets("a", attempt(OUTER, 2, level=2)) == [attempt(OUTER, 2, level=3)]
    assert one.gets("head", attempt(OUTER, 1, level=3, completed=3)) == []
    round_it = attempt(OUTER, 2, level=3, completed=3)
    assert one.gets("head", round_it) == [round_it]


# -- type 1 ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("S10-13", "S10-19", "S10-23")
def test_an_inner_head_says_whether_data_went_through_since_the_last_visit():
    one = head(INNER, "t")
    one.gets_data("t")
    visited = attempt(OUTER, 1, level=2, completed=2)
    assert one.gets("t", attempt(OUTER, 1, level=2)) == [replace(visited, status=BUSY)]
    assert one.gets("t", attempt(OUTER, 2, level=2)) == [replace(visited, attempt_id=2)]
    assert one.gets("t", attempt(OUTER, 3, level=2), BUSY) == [replace(visited, attempt_id=3, status=BUSY)]


@pytest.mark.requirement("S10-13")
def test_a_head_forwards_an_outer_attempt_once():
    one = head(INNER, "t")
    one.gets("t", attempt(OUTER, 1, level=2))
    assert one.gets("t", attempt(OUTER, 1, level=2, completed=2)) == []
    assert one.gets("t", attempt(OUTER, 1, level=2, completed=1)) == []


@pytest.mark.requirement("S10-14", "S10-15")
def test_a_head_ends_when_its_attempt_comes_back_idle_and_no_data_came():
    """E-17: an idle loop ends with attempt 1, whatever went round before."""
    one = head(OUTER, "t")
    one.gets_data("t")
    assert one.gets("t", attempt(OUTER)) == [attempt(OUTER, 1)]
    assert one.gets("t", attempt(OUTER, 1)) == [attempt(OUTER, 1, completed=1)]
    assert one.has_ended()
    assert one.gets("t", attempt(OUTER, 1, completed=1)) == []


@pytest.mark.requirement("S10-14", "S10-23")
def test_a_head_whose_channel_holds_feedback_says_so():
    one = head(OUTER, "t")
    assert one.gets("t", attempt(OUTER), BUSY) == [attempt(OUTER, 1, status=BUSY)]


@pytest.mark.requirement("S10-15", "S10-16")
@pytest.mark.parametrize("why", ["data", "busy", "the channel holds data"])
def test_an_attempt_is_aborted_and_repeated_with_a_higher_id(why):
    """E-17: attempt 1 sees data or somebody busy, attempt 2 succeeds."""
    one = head(OUTER, "t")
    one.gets("t", attempt(OUTER))
    if why == "data":
        one.gets_data("t")
    back = attempt(OUTER, 1, status=BUSY if why == "busy" else IDLE)
    held = BUSY if why == "the channel holds data" else IDLE
    assert one.gets("t", back, held) == [attempt(OUTER, 2, status=held)]
    assert not one.has_ended()
    assert one.gets("t", attempt(OUTER, 2)) == [attempt(OUTER, 2, completed=1)]


@pytest.mark.requirement("S10-5", "S10-18")
def test_a_head_waits_for_all_that_feed_back_and_ignores_what_is_old():
    one = head(OUTER, "s", "t")
    one.gets("s", attempt(OUTER))
    assert one.gets("t", attempt(OUTER)) == [attempt(OUTER, 1)]
    assert one.gets("s", attempt(OUTER, 1)) == []
    assert one.gets("t", attempt(OUTER)) == []
    assert one.gets("t", attempt(OUTER, 1)) == [attempt(OUTER, 1, completed=1)]


def test_data_that_is_fed_back_after_the_loop_is_complete_is_a_defect():
    one = head(OUTER, "t")
    one.gets("t", attempt(OUTER))
    one.gets("t", attempt(OUTER, 1))
    with pytest.raises(ProtocolViolation, match="loop 'default > outer' is complete, and channel 't' feeds data back"):
        one.gets_data("t")


# -- runs ------------------------------------------------------------------------------------------------


def run(network: Network, state: State, *, unless: str) -> State:
    """Always the first thing that can happen, but for those that are called so, while there are others."""
    for _ in range(100_000):
        moves = list(network.moves(state))
        if not moves:
            return state
        wanted = [move for label, move in moves if unless not in label]
        if not wanted:
            return state
        state = wanted[0]()
    raise AssertionError("it does not come to an end")


@pytest.mark.requirement("S10-3", "S10-16")
@pytest.mark.parametrize("attempts", [1, 1000])
def test_a_loop_waits_for_an_operator_however_long_it_takes(attempts):
    """E-17: attempts come and go while t works, and nothing is lost; its result goes round once more."""
    graph = one_loop()
    graph.parks = frozenset({"t"})
    network = Network(graph, tokens=1, fuel=1)
    state = network.start()
    place, head_place = network.place["t"], network.place["b.head"]
    for label in "a to b", "a>b 1 to t", "b>t 1 parks", "a ends":
        state = dict(network.moves(state))[label]()
    for _ in range(100_000):
        if state.operators[head_place].attempt_id > attempts:  # type: ignore[union-attr]
            break
        state = next(move for label, move in network.moves(state) if "unparks" not in label)()
    assert state.parked[place] == (1,)
    state = dict(network.moves(state))["t unparks to b.head"]()
    assert any(isinstance(item, Data) for queue in state.queues for item in queue)
    state = run(network, state, unless="nothing")
    network.check_over(state)


@pytest.mark.requirement("S10-3", "S10-4", "S10-5", "S10-19", "S10-20")
@pytest.mark.parametrize("batch", range(10))
def test_large_graphs_end_whatever_is_late(batch):
    """T-6: 16 loops one after the other, side by side and nested up to four deep."""
    levels, attempts = set(), 0
    for seed in range(batch * 12, batch * 12 + 12):
        simulated = simulate(seed, loops=16, depth=4)
        levels.add(simulated.levels)
        attempts += simulated.attempts
    assert max(levels) == 4
    assert attempts > 12 * 16, "no attempt was ever aborted"


@pytest.mark.requirement("S10-3", "S10-4")
def test_many_small_graphs_end_whatever_is_late():
    chance = random.Random(1)
    for seed in range(200):
        simulate(seed, loops=chance.randint(1, 5), depth=chance.randint(1, 4))
