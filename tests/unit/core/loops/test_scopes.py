"""Scopes: nesting, comparing, and what may be combined."""

import dataclasses
import re

import pytest

from rekindle.core.loops.scopes import DEFAULT_SCOPE, Operand, ScopeError, StreamScope, check_feedback, check_same_scope

OUTER = DEFAULT_SCOPE.nest("rank")
INNER = OUTER.nest("spread")
NEIGHBOUR = DEFAULT_SCOPE.nest("count")


@pytest.mark.requirement("S8-13", "S8-16")
def test_the_level_is_the_number_of_scopes_around():
    assert [scope.level for scope in (DEFAULT_SCOPE, OUTER, INNER, NEIGHBOUR)] == [0, 1, 2, 1]


@pytest.mark.requirement("S8-12")
def test_a_scope_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        OUTER.level = 2  # type: ignore[misc]


@pytest.mark.requirement("S8-9", "S8-12", "S8-14")
def test_to_unnest_gives_the_scopes_around_one_by_one():
    assert INNER.unnest() == OUTER
    assert INNER.unnest().unnest() == DEFAULT_SCOPE
    assert str(INNER) == "default > rank > spread"


@pytest.mark.requirement("S8-15", "S8-18")
def test_each_nesting_is_another_scope_and_each_scope_equals_itself():
    first, second = OUTER.nest("same"), OUTER.nest("same")
    assert first != second
    assert len({first, second}) == 2
    assert first.unnest() == second.unnest()
    again = first
    assert first == again


@pytest.mark.requirement("S8-17")
@pytest.mark.parametrize(
    ("one", "other", "inner"),
    [
        (INNER, OUTER, True),
        (INNER, DEFAULT_SCOPE, True),
        (OUTER, DEFAULT_SCOPE, True),
        (OUTER, INNER, False),
        (OUTER, OUTER, False),
        (DEFAULT_SCOPE, DEFAULT_SCOPE, False),
        (OUTER, NEIGHBOUR, False),
        (INNER, NEIGHBOUR, False),
        (NEIGHBOUR, INNER, False),
    ],
)
def test_inner_and_outer_are_strict_and_go_by_the_chain(one, other, inner):
    assert one.is_inner_of(other) is inner
    assert other.is_outer_of(one) is inner


@pytest.mark.requirement("S8-19")
def test_the_scope_of_a_level_is_what_unnesting_leads_to():
    assert INNER.scope_for_level(INNER.level - 2) == INNER.unnest().unnest()
    assert INNER.scope_for_level(1) == OUTER
    assert INNER.scope_for_level(2) == INNER


@pytest.mark.requirement("S8-19")
def test_the_default_scope_cannot_be_unnested():
    with pytest.raises(ScopeError, match="default scope has none around it"):
        DEFAULT_SCOPE.unnest()


@pytest.mark.requirement("S8-19")
@pytest.mark.parametrize("level", [-1, 3])
def test_a_level_that_a_scope_does_not_have_is_an_error(level):
    with pytest.raises(ScopeError, match=re.escape(f"scope 'default > rank > spread' has no level {level}")):
        INNER.scope_for_level(level)


@pytest.mark.requirement("S8-10", "S8-22")
@pytest.mark.parametrize("scope", [DEFAULT_SCOPE, OUTER, INNER])
def test_streams_of_one_scope_can_be_combined(scope):
    check_same_scope("union", Operand("a", scope), Operand("b", scope), Operand("c", scope))


@pytest.mark.requirement("S8-10")
@pytest.mark.parametrize("operation", ["union", "join", "connect", "co-group"])
@pytest.mark.parametrize("other", [DEFAULT_SCOPE, OUTER, NEIGHBOUR])
def test_streams_of_two_scopes_cannot_be_combined(operation, other):
    with pytest.raises(ScopeError) as error:
        check_same_scope(operation, Operand("ranks", INNER), Operand("edges", other))
    text = str(error.value)
    assert text.startswith(f"{operation} takes streams of one scope: ")
    assert "'ranks' is in scope 'default > rank > spread'" in text
    assert f"'edges' in scope '{other}'" in text
    assert "input of the loop" in text


@pytest.mark.requirement("S8-10")
def test_the_one_of_several_streams_that_is_elsewhere_is_named():
    with pytest.raises(ScopeError, match="'c' in scope 'default > count'"):
        check_same_scope("union", Operand("a", OUTER), Operand("b", OUTER), Operand("c", NEIGHBOUR))


@pytest.mark.requirement("S8-10")
def test_two_loops_of_one_name_are_told_apart():
    with pytest.raises(ScopeError, match="'b' in scope 'default > rank', another loop of that name"):
        check_same_scope("join", Operand("a", OUTER), Operand("b", DEFAULT_SCOPE.nest("rank")))


@pytest.mark.requirement("S8-3", "S8-22")
@pytest.mark.parametrize("scope", [DEFAULT_SCOPE, NEIGHBOUR, INNER])
def test_a_loop_is_fed_back_from_its_own_scope(scope: StreamScope):
    check_feedback(Operand("ranks", OUTER), OUTER)
    with pytest.raises(ScopeError, match=f"the feedback of loop '{OUTER}' must be in that scope, and 'ranks'"):
        check_feedback(Operand("ranks", scope), OUTER)
