"""Blocked nodes: merge, expiry, and the share that may be blocked."""

from fractions import Fraction

import pytest

from rekindle.core import actions as act
from rekindle.core import events as ev
from rekindle.core.blocklist import AddStatus, BlockedNode, Blocklist, BlocklistTracker
from rekindle.core.options import BlocklistOptions, SpeculationOptions
from tests.unit.core.dsl import Run, job

EVERY = BlocklistOptions(max_blocked_share=Fraction(1))


def block(end: float, cause: str = "slow", start: float = 0.0) -> BlockedNode:
    return BlockedNode("n1", start, end, cause)


@pytest.mark.requirement("S3-6", "S3-8", "S3-10")
class TestTheTracker:
    def test_a_new_node_is_added(self):
        tracker = BlocklistTracker()
        assert tracker.add(block(10)) is AddStatus.ADDED
        assert tracker.at(0) == {"n1": block(10)}

    def test_a_later_end_replaces(self):
        tracker = BlocklistTracker()
        tracker.add(block(10))
        assert tracker.add(block(20, start=5)) is AddStatus.MERGED
        assert tracker.at(0) == {"n1": block(20)}

    def test_an_earlier_end_changes_nothing(self):
        tracker = BlocklistTracker()
        tracker.add(block(20))
        assert tracker.add(block(10, cause="a person")) is AddStatus.NONE
        assert tracker.at(0) == {"n1": block(20)}

    def test_the_same_again_changes_nothing(self):
        tracker = BlocklistTracker()
        tracker.add(block(10))
        assert tracker.add(block(10)) is AddStatus.NONE

    def test_an_equal_end_with_another_cause_replaces(self):
        tracker = BlocklistTracker()
        tracker.add(block(10))
        assert tracker.add(block(10, cause="a person")) is AddStatus.MERGED
        assert tracker.at(0)["n1"].cause == "a person"

    def test_a_block_is_gone_at_its_end_and_not_before(self):
        tracker = BlocklistTracker()
        tracker.add(block(10))
        assert tracker.remove_expired(9.999) == ()
        assert "n1" in tracker
        assert tracker.remove_expired(10.0) == (block(10),)
        assert "n1" not in tracker
        assert tracker.remove_expired(10.0) == ()

    def test_a_block_past_its_end_is_not_in_force_although_nobody_has_removed_it(self):
        tracker = BlocklistTracker()
        tracker.add(block(10))
        assert tracker.at(10.0) == {}


def slow_job(nodes: int = 5, **options) -> Run:
    """A[3] runs on n1 and is slow; a report of it blocks n1 for a minute."""
    run = Run(job("A*4"), speculation=SpeculationOptions(enabled=True, **options)).submit()
    run.has_nodes(*(f"n{number}" for number in range(1, nodes + 1)))
    return run.deploy("A", node="n1")


@pytest.mark.requirement("S3-2", "S3-10", "S2-7")
class TestABlockInTime:
    """E-15."""

    def test_renewed_at_30_it_ends_at_90(self):
        run = slow_job()
        assert run.slow("A[3]#0").blocked == ["n1"]
        run.now = 30.0
        assert run.slow("A[3]#0").blocked == []
        run.now = 89.9
        assert run.see(ev.Tick()).unblocked == []
        run.now = 90.0
        assert run.see(ev.Tick()) == [act.Unblock("n1", "its block has ended: slow task A[3]: too slow")]

    @pytest.mark.requirement("S3-3")
    def test_what_runs_there_goes_on(self):
        run = slow_job()
        assert run.slow("A[3]#0").canceled == []
        assert run.states("A[3]")[0] == "RUNNING"

    @pytest.mark.requirement("S3-7")
    def test_it_says_since_when_until_when_and_why(self):
        run = slow_job(nodes=10)
        run.now = 30.0
        run.slow("A[3]#0")
        run.see(ev.NodeBlockRequested("n2", until=500.0, cause="a person"))
        assert run.graph.blocked_nodes(30.0) == {
            "n1": BlockedNode("n1", 30.0, 90.0, "slow task A[3]: too slow"),
            "n2": BlockedNode("n2", 30.0, 500.0, "a person"),
        }

    def test_a_shorter_renewal_does_not_shorten(self):
        run = slow_job()
        run.see(ev.NodeBlockRequested("n1", until=500.0, cause="a person"))
        run.slow("A[3]#0")
        assert run.graph.blocked_nodes(0.0)["n1"].end == 500.0

    def test_any_event_ends_what_has_come_to_its_end(self):
        run = slow_job()
        (block,) = run.slow("A[3]#0").of(act.Block)
        assert (block.until, block.cause) == (60.0, "slow task A[3]: too slow")
        run.now = 60.0
        assert run.finish("A[0]").unblocked == ["n1"]

    @pytest.mark.requirement("S3-8")
    def test_with_a_duration_of_zero_nothing_is_blocked_and_copies_are_made(self):
        answer = slow_job(block_slow_node_duration=0.0).slow("A[3]#0")
        assert answer.blocked == []
        assert answer.copies == ["A[3]#1"]

    def test_a_request_for_the_past_does_nothing(self):
        run = slow_job()
        run.now = 100.0
        assert run.see(ev.NodeBlockRequested("n1", until=100.0, cause="a person")) == []

    @pytest.mark.requirement("S3-14")
    def test_a_request_ends_a_block_before_its_time_whoever_asked_for_it(self):
        run = slow_job(nodes=10)
        run.slow("A[3]#0")
        run.see(ev.NodeBlockRequested("n2", until=500.0, cause="a person"))
        assert run.see(ev.NodeUnblockRequested("n1", "a person")) == [act.Unblock("n1", "a person")]
        assert list(run.graph.blocked_nodes(0.0)) == ["n2"]
        assert run.see(ev.NodeUnblockRequested("n1", "a person")) == []

    def test_a_task_that_is_still_slow_blocks_its_node_again(self):
        run = slow_job()
        run.slow("A[3]#0")
        run.see(ev.NodeUnblockRequested("n1", "a person"))
        assert run.slow("A[3]#0").blocked == ["n1"]

    def test_a_block_without_end(self):
        run = slow_job()
        run.see(ev.NodeBlockRequested("n1", until=float("inf"), cause="a person"))
        run.now = 1e12
        assert run.see(ev.Tick()).unblocked == []


@pytest.mark.requirement("S3-4", "S2-38")
def test_no_new_task_goes_to_a_blocked_node():
    run = Run(job("A => B")).submit().has_nodes("n1", "n2", "n3")
    run.see(ev.NodeBlockRequested("n1", until=100.0, cause="a person"))
    (deploy,) = run.finish("A[0]").of(act.Deploy)
    assert deploy.avoid_nodes == {"n1"}


class TestTheShareOfBlockedNodes:
    def block(self, run: Run, *nodes: str) -> dict[str, list[str]]:
        answers = [run.see(ev.NodeBlockRequested(node, until=60.0, cause="a person")) for node in nodes]
        return {
            "blocked": [node for answer in answers for node in answer.blocked],
            "refused": [node for answer in answers for node in answer.refused],
        }

    @pytest.mark.parametrize(
        ("nodes", "share", "blocked"),
        [(10, "0.2", 2), (11, "0.2", 3), (3, "0.2", 1), (2, "0.2", 1), (1, "1", 0), (4, "1", 3), (5, "0", 0)],
    )
    def test_at_most_that_share_rounded_up_and_never_the_last(self, nodes, share, blocked):
        names = [f"n{number}" for number in range(nodes)]
        run = Run(job("A"), blocklist=BlocklistOptions(Fraction(share))).submit().has_nodes(*names)
        assert self.block(run, *names) == {"blocked": names[:blocked], "refused": names[blocked:]}

    def test_a_refusal_says_why(self):
        run = Run(job("A")).submit().has_nodes("n1", "n2", "n3")
        self.block(run, "n1")
        (refusal,) = run.see(ev.NodeBlockRequested("n2", until=60.0, cause="a person")).of(act.BlockRefused)
        assert refusal.reason == "1 of 3 nodes are blocked, and the most is 1 (maxBlockedShare)"
        alone = Run(job("A"), blocklist=EVERY).submit().has_nodes("n1", "n2")
        self.block(alone, "n1")
        (refusal,) = alone.see(ev.NodeBlockRequested("n2", until=60.0, cause="a person")).of(act.BlockRefused)
        assert refusal.reason == "it is the last of 2 nodes that is not blocked"

    def test_a_renewal_is_never_refused(self):
        run = Run(job("A")).submit().has_nodes("n1", "n2")
        self.block(run, "n1")
        assert self.block(run, "n1") == {"blocked": [], "refused": []}

    def test_an_ended_block_makes_room(self):
        run = Run(job("A")).submit().has_nodes("n1", "n2")
        self.block(run, "n1")
        run.now = 60.0
        answer = run.see(ev.NodeBlockRequested("n2", until=120.0, cause="a person"))
        assert (answer.unblocked, answer.blocked) == (["n1"], ["n2"])

    def test_nodes_that_have_gone_do_not_count(self):
        run = Run(job("A"), blocklist=EVERY).submit().has_nodes("n1", "n2", "n3")
        self.block(run, "n1")
        run.has_nodes("n1", "n2")
        assert self.block(run, "n2")["refused"] == ["n2"]

    def test_the_last_one_left_is_not_blocked_any_more(self):
        run = Run(job("A*2"), blocklist=EVERY).submit().has_nodes("n1", "n2", "n3")
        self.block(run, "n1")
        run.now = 1.0
        self.block(run, "n2")
        answer = run.see(ev.NodesChanged(("n1", "n2")))
        assert answer == [act.Unblock("n1", "the other nodes are gone, and all that is left (2) is blocked")]
        assert run.loses_node("n1").unblocked == ["n2"]

    def test_the_copies_are_made_although_the_block_is_refused(self):
        answer = slow_job(nodes=1).slow("A[3]#0")
        assert answer.refused == ["n1"]
        assert answer.copies == ["A[3]#1"]

    def test_a_slow_task_that_stays_slow_is_refused_once(self):
        run = slow_job(nodes=1)
        assert run.slow("A[3]#0").refused == ["n1"]
        assert run.slow("A[3]#0").refused == []

    def test_it_is_told_again_when_the_reason_has_changed(self):
        run = slow_job(nodes=2)
        self.block(run, "n2")
        assert run.slow("A[3]#0").refused == ["n1"]
        run.has_nodes("n1", "n2", "n3")
        assert run.slow("A[3]#0").refused == ["n1"]
        run.now = 60.0
        assert run.slow("A[3]#0").blocked == ["n1"]

    def test_a_person_who_asks_is_always_answered(self):
        run = Run(job("A")).submit().has_nodes("n1")
        assert self.block(run, "n1")["refused"] == self.block(run, "n1")["refused"] == ["n1"]

    def test_while_nobody_has_said_which_nodes_there_are_those_seen_count(self):
        run = Run(job("A*4"), speculation=SpeculationOptions(enabled=True)).submit()
        run.deploy("A[0]", node="n1").deploy("A[1]", node="n2")
        assert run.slow("A[0]#0").blocked == ["n1"]
        assert run.slow("A[1]#0").refused == ["n2"]

    def test_one_that_was_seen_and_is_lost_counts_no_more(self):
        run = Run(job("A*4"), speculation=SpeculationOptions(enabled=True), blocklist=EVERY).submit()
        run.deploy("A[0]", node="n1").deploy("A[1]", node="n2").deploy("A[2]", node="n3")
        run.loses_node("n3")
        assert run.slow("A[0]#0").blocked == ["n1"]
        assert run.slow("A[1]#0").refused == ["n2"]


def test_where_a_map_side_or_an_unknown_task_runs_is_no_node():
    """Else the only node would look like one of three."""
    blocklist = Blocklist(EVERY)
    for node in ("n1", "*", "unknown"):
        blocklist.node_seen(node)
    (refused,) = blocklist.block(block(60.0), 0.0)
    assert isinstance(refused, act.BlockRefused)
