"""NodeBlocks: what people and the operator may write."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from rekindle.api.crd import custom_resource_definition
from rekindle.api.node_block import NodeBlock
from tests.unit.api.api_server import ApiServer

SERVER = ApiServer(custom_resource_definition("NodeBlock")["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
GOOD = {"node": "node-1.example", "end": "2026-01-31T12:00:00Z"}


def document(**changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "rekindle.dev/v1beta2",
        "kind": "NodeBlock",
        "metadata": {"name": "node-1.example"},
        "spec": GOOD | changes,
    }


def read(**changes: Any) -> NodeBlock:
    return NodeBlock.model_validate(document(**changes), by_alias=True, by_name=False)


def test_the_smallest_block():
    block = read()
    assert block.spec.action == "MarkBlocked"
    assert block.spec.end == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert (block.spec.start, block.spec.applications, block.status.active) == (None, [], False)
    assert SERVER.refusals(document()) == []


def test_times_are_written_in_utc():
    block = read(end="2026-01-31T13:00:00.5+01:00")
    assert block.model_dump(mode="json", by_alias=True)["spec"]["end"] == "2026-01-31T12:00:00.500000Z"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"node": ""}, "spec.node"),
        ({"action": "Drain"}, "spec.action"),
        ({"end": "tomorrow"}, "spec.end"),
        ({"end": "2026-01-31T12:00:00"}, "spec.end"),
        ({"end": 12}, "spec.end"),
        ({"start": "2026-02-01T00:00:00Z"}, "end is not after start"),
        ({"start": GOOD["end"]}, "end is not after start"),
        ({"applications": ["flights"]}, "spec.applications"),
        ({"cause": "x" * 1025}, "spec.cause"),
    ],
)
def test_both_refuse(changes, says):
    (server,) = SERVER.refusals(document(**changes))
    assert says in server
    with pytest.raises(ValidationError, match=says.replace("spec.", r"spec\.").partition(".")[2] or says):
        read(**changes)


def test_an_application_asks_once():
    with pytest.raises(ValidationError, match="an application is there twice"):
        read(applications=["a/b", "a/b"])


def test_the_node_is_not_changed_but_the_end_is():
    def said(new: dict[str, Any]) -> list[str]:
        return SERVER.refusals(new, old=document())

    assert said(document(end="2026-03-01T00:00:00Z")) == []
    assert said(document(node="other")) == ["spec.node: the node cannot be changed; make another NodeBlock"]
