"""Which NodeBlocks are in force: merge, expiry, guards."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from rekindle.controller.blocks.facts import node_facts
from rekindle.controller.blocks.marks import BLOCKED
from rekindle.controller.blocks.plan import BlockDecision, decide
from rekindle.controller.blocks.settings import BlockMode, BlockSettings
from tests.unit.controller.blocks.objects import NOW, block, node

NODES = [node(f"n{number}") for number in range(1, 6)]
TAINT = {"key": BLOCKED, "value": "true", "effect": "NoSchedule"}


def decided(*blocks: dict[str, Any], nodes=NODES, now=NOW, has_ended=lambda _: False, **settings) -> BlockDecision:
    return decide(blocks, [node_facts(one) for one in nodes], BlockSettings(**settings), now, has_ended)


def reasons(decision: BlockDecision) -> dict[str, str]:
    return {each.block.body["metadata"]["name"]: each.outcome[1] for each in decision.verdicts}


@pytest.mark.requirement("S3-3", "S3-9")
def test_a_block_in_force_marks_its_node():
    decision = decided(block("n2"))
    assert [one.name for one in decision.mark] == ["n2"]
    assert decision.active["n2"].end == NOW + 600
    assert decision.verdicts[0].status.active
    assert (decision.unmark, decision.delete) == ((), ())


@pytest.mark.requirement("S3-8", "S3-14")
@pytest.mark.parametrize("later_first", [True, False])
def test_of_two_blocks_of_a_node_the_later_end_counts_and_the_stronger_action(later_first):
    short = block("n2", name="short", end=60, action="MarkBlockedAndEvacuateTasks", cause="short")
    long = block("n2", name="long", end=600, cause="long")
    decision = decided(*((long, short) if later_first else (short, long)))
    assert [one.name for one in decision.mark] == ["n2"]
    there = decision.active["n2"]
    assert (there.end, there.cause, there.evacuate) == (NOW + 600, "long", True)
    assert reasons(decision) == {"short": "NodeBlocked", "long": "NodeBlocked"}


@pytest.mark.requirement("S3-8", "S3-14")
def test_a_block_is_over_at_its_end_and_the_node_is_free_when_the_last_is():
    marked = [node("n1", taints=[TAINT], labels={BLOCKED: "true"}), *NODES[1:]]
    first, last = block("n1", name="first", end=60, ours=True), block("n1", name="last", end=61)
    before = decided(first, last, nodes=marked, now=NOW + 59.999)
    assert (before.unmark, before.delete) == ((), ())
    assert before.delay == pytest.approx(0.001, abs=1e-6)
    one_left = decided(first, last, nodes=marked, now=NOW + 60)
    assert [one.name for one in one_left.delete] == ["first"]
    assert one_left.unmark == ()
    over = decided(last, nodes=marked, now=NOW + 61)
    assert [one.name for one in over.unmark] == ["n1"]
    assert over.delete == (), "a person's block is not deleted"
    assert reasons(over) == {"last": "Over"}


@pytest.mark.requirement("S3-13")
def test_marks_that_nobody_asks_for_are_taken_off():
    left = [node("n1", taints=[TAINT]), node("n2", labels={BLOCKED: "true"}), node("n3")]
    decision = decided(nodes=left)
    assert [one.name for one in decision.unmark] == ["n1", "n2"]


@pytest.mark.parametrize(
    ("asked", "reason", "says"),
    [
        (block("n1", start=5), "NotBegun", "it begins at"),
        (block("n1", end=-1), "Over", "it ended at"),
        (block("gone"), "NoSuchNode", "there is no node gone"),
    ],
)
def test_a_block_that_is_not_in_force_says_why(asked, reason, says):
    decision = decided(asked)
    assert (decision.mark, dict(decision.active)) == ((), {})
    _, told, message = decision.verdicts[0].outcome
    assert told == reason
    assert message.startswith(says)


def test_it_is_looked_at_again_when_the_next_block_begins_or_ends_and_at_the_latest_after_half_a_minute():
    assert decided(block("n1", start=5, end=90)).delay == pytest.approx(5)
    assert decided(block("n1", end=9)).delay == pytest.approx(9)
    assert decided(block("n1", end=900)).delay == 30


def test_at_most_a_share_of_the_nodes_rounded_up_is_blocked_and_the_first_stay():
    blocks = [block("n3"), block("n1"), block("n2", active=True)]
    decision = decided(*blocks, max_blocked_share=Fraction(1, 5))
    assert [one.name for one in decision.mark] == ["n2"]
    assert reasons(decision) == {"n2": "NodeBlocked", "n1": "TooManyBlocked", "n3": "TooManyBlocked"}
    assert "1 of 5 nodes are blocked, and the most is 1" in decision.verdicts[0].outcome[2]
    assert len(decided(*blocks, max_blocked_share=Fraction(21, 100)).mark) == 2


def test_a_block_in_force_stays_when_its_node_takes_no_pods_any_more():
    nodes = [node("n1", ready="False"), *(node(f"n{number}") for number in (2, 3, 4))]
    kept, other = block("n1", active=True), block("n2", start=-60.0)
    assert reasons(decided(kept, other, nodes=nodes)) == {"n1": "NodeBlocked", "n2": "TooManyBlocked"}


@pytest.mark.parametrize("other", [node("n2", cordoned=True), node("n2", ready="Unknown"),
                                   node("n2", taints=[{"key": "pool", "effect": "NoSchedule"}])])  # fmt: skip
def test_the_last_node_that_takes_pods_is_never_blocked(other):
    decision = decided(block("n1"), nodes=[node("n1"), other], max_blocked_share=Fraction(1))
    assert decision.mark == ()
    assert reasons(decision) == {"n1": "TooManyBlocked"}


def test_a_node_in_force_is_freed_when_the_others_are_gone():
    marked = node("n1", taints=[TAINT], labels={BLOCKED: "true"})
    decision = decided(block("n1", active=True), nodes=[marked, node("n2", cordoned=True)])
    assert [one.name for one in decision.unmark] == ["n1"]


def test_our_own_taint_does_not_make_a_node_one_that_takes_no_pods():
    marked = node("n1", taints=[TAINT], labels={BLOCKED: "true"})
    decision = decided(block("n1", active=True), nodes=[marked, node("n2")], max_blocked_share=Fraction(1, 2))
    assert [one.name for one in decision.mark] == ["n1"]


def test_only_nodes_that_are_selected_may_be_blocked():
    nodes = [node("n1", labels={"pool": "spark"}), node("n2"), node("n3")]
    decision = decided(block("n1"), block("n2"), nodes=nodes, node_selector={"pool": "spark"})
    assert reasons(decision) == {"n1": "NodeBlocked", "n2": "NodeNotSelected"}


def test_a_dry_run_says_what_would_be_and_marks_nothing():
    decision = decided(block("n1"), block("n2"), mode=BlockMode.DRY_RUN)
    assert (decision.mark, dict(decision.active)) == ((), {})
    assert reasons(decision) == {"n1": "DryRun", "n2": "TooManyBlocked"}
    assert decision.verdicts[0].outcome[2].startswith("dry run: otherwise n1 gets no new tasks until")
    assert not decision.verdicts[0].status.active


def test_a_block_goes_with_the_applications_that_asked_if_so_asked():
    asked: dict[str, Any] = {"applications": ["a/x", "b/y"], "removeWhenDone": True, "ours": True}
    some = decided(block("n1", **asked), has_ended={"a/x"}.__contains__)
    assert reasons(some) == {"n1": "NodeBlocked"}
    all_ended = decided(block("n1", **asked), has_ended={"a/x", "b/y"}.__contains__)
    assert reasons(all_ended) == {"n1": "ApplicationsEnded"}
    assert [one.name for one in all_ended.delete] == ["n1"]
    stays = decided(block("n1", **{**asked, "removeWhenDone": False}), has_ended=lambda _: True)
    assert reasons(stays) == {"n1": "NodeBlocked"}


def test_a_block_that_cannot_be_read_blocks_nothing_and_says_why():
    broken = block("n1")
    broken["spec"]["end"] = "soon"
    decision = decided(broken, block("n2"))
    assert [one.name for one in decision.mark] == ["n2"]
    assert reasons(decision)["n1"] == "SpecInvalid"
    assert "spec.end" in decision.verdicts[-1].outcome[2]


def test_what_is_said_is_said_once_and_its_time_stays():
    (first,) = decided(block("n1")).verdicts
    assert first.said is not None
    again = block("n1")
    again["status"] = first.status.model_dump(mode="json", by_alias=True)
    (second,) = decided(again, now=NOW + 5).verdicts
    assert second.said is None
    assert second.status == first.status


@pytest.mark.parametrize("end", ["9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00"])
def test_a_time_that_no_clock_has_stops_nothing(end):
    far = block("n1")
    far["spec"]["end"] = end
    decision = decided(far, block("n2"))
    assert [one.name for one in decision.mark] == ["n2"]
    assert reasons(decision)["n1"] == "SpecInvalid"


def test_a_block_without_a_start_holds_at_once_whatever_the_clock_was_when_it_was_made():
    assert reasons(decided(block("n1"), now=NOW - 600)) == {"n1": "NodeBlocked"}
