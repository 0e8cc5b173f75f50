"""Blocks that a person asks for and takes back, at an API server."""

from dataclasses import replace
from datetime import timedelta

import pytest

from rekindle.controller.kube import Kube, Refused
from rekindle.controller.resources import NODE, NODE_BLOCK
from rekindle.remote.applications import RemoteError
from rekindle.remote.nodes import Wanted, block, list_nodes, unblock
from tests.unit.controller.api_server import ApiServer, served
from tests.unit.remote.objects import NOW, at, node, node_block

EVACUATE = "MarkBlockedAndEvacuateTasks"
WANTED = Wanted("n1", NOW + timedelta(minutes=10))


def asked_for(wanted, *there, said):
    """Ask for the block beside those that are there; the blocks then, and what was written."""
    specs, written = {}, []

    async def case(server: ApiServer):
        server.make(NODE, "", node("n1"))
        for body in there:
            server.make(NODE_BLOCK, "", body)
        assert await block(server.kube, wanted, NOW) == said
        specs.update({body["metadata"]["name"]: body["spec"] for body in server.all(NODE_BLOCK)})
        written.extend(server.written())

    served(case)
    return specs, written


def refused(wanted, there, match):
    """Ask for the block beside one that is there; nothing is written."""

    async def case(server: ApiServer):
        server.make(NODE, "", node("n1"))
        server.make(NODE_BLOCK, "", there)
        with pytest.raises(RemoteError, match=match):
            await block(server.kube, wanted, NOW)
        assert server.written() == []

    served(case)


def until(minutes, more=""):
    return f"n1 is to be blocked until {at(minutes)}{more}; `rekindle nodes` shows whether it is active"


def test_a_block_is_made_in_the_name_of_its_node():
    specs, _ = asked_for(WANTED, said=until(10))
    assert specs == {"n1": {"node": "n1", "action": "MarkBlocked", "end": at(10), "cause": "by hand"}}


def test_a_block_with_a_cause_and_the_stronger_action():
    specs, _ = asked_for(replace(WANTED, cause="slow disk", evacuate=True), said=until(10))
    assert specs == {"n1": {"node": "n1", "action": EVACUATE, "end": at(10), "cause": "slow disk"}}


@pytest.mark.requirement("S3-8")
@pytest.mark.parametrize(("cause", "stored"), [("slow net", "slow net"), (None, "slow disk"), ("", "")])
def test_a_longer_block_renews_the_one_that_is_there(cause, stored):
    there = node_block("n1", at(4), applications=["team/pi"])
    specs, written = asked_for(replace(WANTED, cause=cause), there, said=until(10, ", longer than before"))
    assert specs == {"n1": {**there["spec"], "end": at(10), "cause": stored}}
    assert written == ["PATCH /apis/rekindle.dev/v1beta2/nodeblocks/n1"]


@pytest.mark.requirement("S3-8")
def test_a_block_that_ends_later_stays():
    there = node_block("n1", at(11))
    said = f"n1 is already blocked until {at(11)}: that is later"
    specs, written = asked_for(replace(WANTED, cause="other"), there, said=said)
    assert (specs, written) == ({"n1": there["spec"]}, [])


def test_of_one_that_stays_it_is_said_that_it_is_not_active():
    said = f"n1 is already blocked until {at(11)}: that is later; not active: TooManyBlocked"
    asked_for(WANTED, node_block("n1", at(11), active=False, reason="TooManyBlocked"), said=said)


@pytest.mark.requirement("S3-8")
def test_the_stronger_action_stays_and_comes_to_one_that_ends_later():
    stronger, weaker = node_block("n1", action=EVACUATE), node_block("n1", at(11))
    specs, _ = asked_for(WANTED, stronger, said=until(10, ", longer than before"))
    assert (specs["n1"]["action"], specs["n1"]["end"]) == (EVACUATE, at(10))
    said = f"n1 is already blocked until {at(11)}: that is later; its action is {EVACUATE} now"
    specs, _ = asked_for(replace(WANTED, evacuate=True), weaker, said=said)
    assert specs["n1"] == {**weaker["spec"], "action": EVACUATE}
    later = node_block("n1", at(11), action=EVACUATE)
    _, written = asked_for(replace(WANTED, evacuate=True), later, said=said.partition("; ")[0])
    assert written == []


@pytest.mark.requirement("S3-8")
@pytest.mark.parametrize("end", [None, 17, "soon", at(-60)])
def test_a_block_without_an_end_that_could_be_later_is_renewed(end):
    there = node_block("n1")
    there["spec"]["end"] = end
    specs, _ = asked_for(WANTED, there, said=until(10, ", longer than before"))
    assert specs["n1"]["end"] == at(10)


def test_what_a_person_asks_for_does_not_end_with_the_applications():
    there = node_block("n1", at(4), applications=["team/pi"], removeWhenDone=True)
    specs, _ = asked_for(WANTED, there, said=until(10, ", longer than before"))
    assert specs["n1"]["removeWhenDone"] is False
    there["spec"]["end"] = at(11)
    said = f"n1 is already blocked until {at(11)}: that is later; it ends sooner where team/pi has ended"
    asked_for(WANTED, there, said=said)


def test_a_block_that_has_not_begun_begins_at_once():
    there = node_block("n1", at(8), start=at(5), active=False, reason="NotBegun")
    specs, _ = asked_for(WANTED, there, said=until(10, ", longer than before"))
    assert "start" not in specs["n1"]


def test_a_block_that_has_not_begun_and_ends_later_is_not_taken_for_one_that_holds():
    refused(WANTED, node_block("n1", at(20), start=at(5)), f"begins only at {at(5)}")


def test_a_block_of_that_name_of_another_node_is_left_alone():
    refused(WANTED, node_block("n1", node="n2"), "the NodeBlock n1 is of another node, n2: kubectl delete nodeblock n1")
    refused(WANTED, node_block("n1", node=None), "the NodeBlock n1 names no node")


def test_a_block_that_is_being_deleted_is_not_renewed():
    there = node_block("n1")
    there["metadata"]["deletionTimestamp"] = at(0)
    refused(WANTED, there, "is being deleted; try again")


def test_a_node_that_does_not_exist_is_not_blocked():
    async def case(server: ApiServer):
        with pytest.raises(RemoteError, match="there is no node n1; `rekindle nodes` lists them"):
            await block(server.kube, WANTED, NOW)
        assert server.written() == []

    served(case)


def test_nodes_are_listed_with_the_blocks():
    async def case(server: ApiServer):
        server.make(NODE, "", node("n1"))
        server.make(NODE_BLOCK, "", node_block("n2"))
        nodes, blocks = await list_nodes(server.kube)
        assert [body["metadata"]["name"] for body in (*nodes, *blocks)] == ["n1", "n2"]

    served(case)


async def taken_back(kube: Kube, of: str) -> list[tuple[str, str]]:
    return [(asked.name, asked.by) async for asked in unblock(kube, of)]


def test_all_blocks_of_a_node_are_deleted_and_no_others():
    async def case(server: ApiServer):
        server.make(NODE_BLOCK, "", node_block("n1"))
        server.make(NODE_BLOCK, "", node_block("pi-slow", node="n1", applications=["team/pi", "team/sum"]))
        server.make(NODE_BLOCK, "", node_block("n2"))
        server.make(NODE_BLOCK, "", node_block("n3", node=None))
        assert await taken_back(server.kube, "n1") == [("n1", "a person"), ("pi-slow", "team/pi, team/sum")]
        assert [body["metadata"]["name"] for body in server.all(NODE_BLOCK)] == ["n2", "n3"]
        assert await taken_back(server.kube, "n1") == []

    served(case)


def test_only_the_block_that_was_listed_is_deleted():
    async def case(server: ApiServer):
        made = server.make(NODE_BLOCK, "", node_block("n1"))
        await taken_back(server.kube, "n1")
        assert server.calls[-1].body["preconditions"] == {"uid": made["metadata"]["uid"]}

    served(case)


def test_what_was_deleted_is_told_before_a_refusal():
    async def case(server: ApiServer):
        for name in ("a", "b"):
            server.make(NODE_BLOCK, "", node_block(name, node="n1"))
        server.fault("DELETE", "/nodeblocks/b$", 403, message="you may not")
        deleted = unblock(server.kube, "n1")
        assert (await anext(deleted)).name == "a"
        with pytest.raises(Refused, match="you may not"):
            await anext(deleted)

    served(case)
