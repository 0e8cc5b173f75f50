"""Blocks that others make, renew or delete while a person asks for one."""

from datetime import timedelta

import pytest

from rekindle.controller.kube import Gone, Kube
from rekindle.controller.resources import NODE, NODE_BLOCK, Resource
from rekindle.remote.applications import RemoteError
from rekindle.remote.nodes import Wanted, block
from tests.unit.controller.api_server import ApiServer, served
from tests.unit.remote.objects import NOW, at, node, node_block

WANTED = Wanted("n1", NOW + timedelta(minutes=10))


class Racing(Kube):
    """Before the first write somebody else stores, or removes, the block."""

    def __init__(self, server: ApiServer, then) -> None:
        super().__init__(server.kube._client)
        self._then = [then]

    async def create(self, resource: Resource, *arguments, **named):
        self._race()
        return await super().create(resource, *arguments, **named)

    async def patch(self, resource: Resource, *arguments, **named):
        self._race()
        return await super().patch(resource, *arguments, **named)

    def _race(self):
        if self._then:
            self._then.pop()()


@pytest.mark.requirement("S3-8")
def test_a_block_that_another_makes_or_renews_meanwhile_is_not_shortened():
    async def case(server: ApiServer):
        server.make(NODE, "", node("n1"))
        longer = f"n1 is already blocked until {at(30)}: that is later"
        made = Racing(server, lambda: server.make(NODE_BLOCK, "", node_block("n1", at(30))))
        assert await block(made, WANTED, NOW) == longer
        server.change(NODE_BLOCK, "", "n1", {"spec": {"end": at(4)}})
        renewed = Racing(server, lambda: server.change(NODE_BLOCK, "", "n1", {"spec": {"end": at(30)}}))
        assert await block(renewed, WANTED, NOW) == longer
        assert server.all(NODE_BLOCK)[0]["spec"]["end"] == at(30)

    served(case)


def test_a_block_that_is_deleted_meanwhile_is_made_again():
    async def case(server: ApiServer):
        server.make(NODE, "", node("n1"))
        server.make(NODE_BLOCK, "", node_block("n1", at(4)))
        made = f"n1 is to be blocked until {at(10)}; `rekindle nodes` shows whether it is active"
        kube = Racing(server, lambda: server.remove(NODE_BLOCK, "", "n1"))
        assert await block(kube, WANTED, NOW) == made
        assert server.all(NODE_BLOCK)[0]["spec"]["end"] == at(10)

    served(case)


def test_a_block_that_changes_at_every_try_is_given_up():
    async def case(server: ApiServer):
        server.make(NODE, "", node("n1"))
        server.make(NODE_BLOCK, "", node_block("n1", at(4)))
        server.fault("PATCH", "/nodeblocks/n1$", 409, times=100)
        with pytest.raises(RemoteError, match="n1 is changed by others all the time; try again"):
            await block(server.kube, WANTED, NOW)
        assert len(server.written()) == 5

    served(case)


def test_a_cluster_that_does_not_know_the_kind_is_asked_once():
    async def case(server: ApiServer):
        server.make(NODE, "", node("n1"))
        server.fault("POST", "/nodeblocks$", 404, message="404 page not found", times=100)
        with pytest.raises(Gone, match="404 page not found"):
            await block(server.kube, WANTED, NOW)
        assert len(server.written()) == 1

    served(case)
