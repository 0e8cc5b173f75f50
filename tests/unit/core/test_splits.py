"""Splits: assigned once, in order, and taken back as they were."""

from __future__ import annotations

import pytest

from rekindle.core.splits import InOrder, LocalFirst, SplitAssignmentTracker


def hand_out(assigner, *hosts: str) -> list[str | None]:
    return [assigner.next_input_split(0, host) for host in hosts]


class TestTracker:
    @pytest.mark.requirement("S4-16")
    def test_remembers_splits_of_each_subtask_in_order(self):
        tracker = SplitAssignmentTracker[str]()
        tracker.record(0, ["b"])
        tracker.record(1, ["c"])
        tracker.record(0, ["a"])
        assert (tracker.splits(0), tracker.splits(1), tracker.splits(2)) == (("b", "a"), ("c",), ())

    @pytest.mark.requirement("S4-16")
    def test_knows_who_gets_no_more(self):
        tracker = SplitAssignmentTracker[str]()
        tracker.complete(0)
        assert (tracker.is_complete(0), tracker.is_complete(1)) == (True, False)
        with pytest.raises(ValueError, match="subtask 0 was told that there are no more splits"):
            tracker.record(0, ["a"])

    def test_forgets_what_it_gives_back(self):
        tracker = SplitAssignmentTracker[str]()
        tracker.record(0, ["a", "b"])
        tracker.complete(0)
        assert tracker.take_back(0) == ("a", "b")
        assert (tracker.splits(0), tracker.is_complete(0), tracker.take_back(0)) == ((), False, ())


def test_in_order_hands_out_first_what_came_back():
    assigner = InOrder("abcd")
    assert hand_out(assigner, "x", "x", "x") == ["a", "b", "c"]
    assigner.return_input_splits(["a", "b"], 0)
    assert hand_out(assigner, "x", "x", "x", "x", "x") == ["a", "b", "d", None, None]


@pytest.mark.requirement("S4-9")
class TestLocalFirst:
    def test_prefers_what_is_near_then_what_is_near_nobody_then_the_first(self):
        assigner = LocalFirst({"a": ["n1"], "b": [], "c": ["n2", "n1"], "d": ["n2"]})
        assert hand_out(assigner, "n2", "n1", "n1", "n1", "n1", "n1") == ["c", "a", "b", "d", None, None]

    def test_hands_out_again_what_came_back_in_its_order(self):
        assigner = LocalFirst({"a": ["n1"], "b": ["n1"], "c": []})
        assert hand_out(assigner, "n1", "n1") == ["a", "b"]
        assigner.return_input_splits(["a", "b"], 0)
        assert hand_out(assigner, "n1", "n9", "n9", "n9") == ["a", "c", "b", None]
