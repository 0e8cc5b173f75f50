"""Nodes and NodeBlocks as rows: what is said of a node, and of which of its blocks."""

import io
import itertools

import pytest
from rich.console import Console

from rekindle.remote.node_tables import as_json, asked_block, cells, node_rows, show_nodes
from tests.unit.remote.objects import NOW, at, node, node_block

EVACUATE = "MarkBlockedAndEvacuateTasks"


def shown(nodes, blocks=()):
    return [cells(row, NOW) for row in node_rows(nodes, blocks)]


def the_row(*blocks, of="n1"):
    """The cells of the only node, after its name and state."""
    [(name, _, *rest)] = shown([node(of)], blocks)
    assert name == of
    return rest


def printed(nodes, blocks):
    out = io.StringIO()
    show_nodes(Console(width=200, file=out, highlight=False), node_rows(nodes, blocks), NOW)
    return out.getvalue()


@pytest.mark.parametrize(
    ("ready", "cordoned", "state"),
    [
        ("True", False, "Ready"),
        ("True", True, "Ready,cordoned"),
        ("False", False, "NotReady"),
        ("Unknown", True, "NotReady,cordoned"),
    ],
)
def test_the_state_of_a_node(ready, cordoned, state):
    assert shown([node("n1", ready, cordoned=cordoned)]) == [("n1", state, "", "", "")]


def test_a_node_that_has_said_nothing_yet_is_not_ready():
    assert shown([{"metadata": {"name": "n1"}}]) == [("n1", "NotReady", "", "", "")]


def test_rows_are_sorted_by_the_name_of_the_node():
    blocks = [node_block("n2"), node_block("n1")]
    assert [row[0] for row in shown([node("n3"), node("n1")], blocks)] == ["n1", "n2", "n3"]


def test_a_block_in_force_shows_the_time_that_is_left():
    assert the_row(node_block("n1", at(4.5))) == ["4m", "a person", "slow disk"]


def test_the_stronger_action_is_shown_with_it():
    assert the_row(node_block("n1", action=EVACUATE))[0] == f"4m, {EVACUATE}"


def test_the_applications_that_asked():
    assert the_row(node_block("n1", applications=["team/pi", "team/sum"]))[1] == "team/pi, team/sum"


def test_a_block_that_is_not_in_force_says_why():
    refused = node_block("n1", active=False, reason="TooManyBlocked", action=EVACUATE)
    assert the_row(refused) == ["asked, not active: TooManyBlocked", "a person", "slow disk"]


def test_a_block_that_no_operator_has_looked_at():
    block = node_block("n1")
    del block["status"]
    assert the_row(block)[0] == "asked, not active yet"


def test_a_block_of_a_node_that_does_not_exist():
    assert shown([node("n1")], [node_block("n9", active=False, reason="NoSuchNode")]) == [
        ("n1", "Ready", "", "", ""),
        ("n9", "no such node", "asked, not active: NoSuchNode", "a person", "slow disk"),
    ]


@pytest.mark.requirement("S3-8")
def test_of_several_blocks_an_active_one_counts_and_of_these_the_latest_end():
    blocks = [
        node_block("a", at(3), node="n1", cause="three"),
        node_block("b", at(9), node="n1", cause="nine", active=False, reason="NotBegun"),
        node_block("c", at(5), node="n1", cause="five"),
    ]
    for order in itertools.permutations(blocks):
        assert the_row(*order) == ["5m", "a person", "five"]
    [row] = node_rows([node("n1")], blocks)
    assert [block.name for block in row.blocks] == ["c", "a", "b"]


def test_the_stronger_action_of_any_active_block_counts():
    longer, stronger = node_block("a", at(9), node="n1"), node_block("b", at(3), node="n1", action=EVACUATE)
    assert the_row(longer, stronger)[0] == f"9m, {EVACUATE}"
    stronger["status"]["active"] = False
    assert the_row(longer, stronger)[0] == "9m"


@pytest.mark.parametrize(
    ("end", "blocked"),
    [
        (None, "until ?"),
        (17, "until 17"),
        ("soon", "until soon"),
        ("0001-01-01T00:00:00+14:00", "until 0001-01-01T00:00:00+14:00"),
        ({}, "until {}"),
    ],
)
def test_an_end_that_cannot_be_read_is_shown_as_it_is_stored(end, blocked):
    block = node_block("n1")
    block["spec"]["end"] = end
    assert the_row(block)[0] == blocked


@pytest.mark.parametrize(
    "parts",
    [
        {"spec": None},
        {"spec": "x"},
        {"status": "x"},
        {"status": None},
        {"status": {"active": "yes", "conditions": "x"}},
        {"status": {"active": True, "conditions": [None, "x", {"type": "Active", "reason": 5}]}},
    ],
)
def test_no_content_of_a_block_breaks_the_table(parts):
    rows = node_rows([node("n1")], [{**node_block("n1"), **parts}, node_block("n1", cause="of the good one")])
    assert "of the good one" in [block.cause for row in rows for block in row.blocks]
    for row in rows:
        assert len(cells(row, NOW)) == 5
        assert as_json(row)["node"]


def test_a_block_that_names_no_node_is_called_by_its_own_name():
    assert shown([], [{"metadata": {"name": "odd"}}]) == [
        ("nodeblock/odd", "no such node", "asked, not active yet", "a person", "")
    ]


def test_fields_of_wrong_types_are_shown_as_they_are_stored():
    block = asked_block(node_block("n1", cause=["a", 1], applications="team/pi", node=3))
    assert (block.node, block.cause, block.by) == ("3", '["a", 1]', "team/pi")


def test_a_node_for_scripts():
    blocks = [node_block("n1", applications=["team/pi"]), node_block("b", at(2), node="n1", action=EVACUATE)]
    [row] = node_rows([node("n1", cordoned=True)], blocks)
    assert as_json(row) == {
        "node": "n1",
        "exists": True,
        "ready": True,
        "cordoned": True,
        "blocked": True,
        "action": EVACUATE,
        "until": "2026-01-31T12:04:00Z",
        "applications": ["team/pi"],
        "cause": "slow disk",
        "reason": "NodeBlocked",
        "nodeBlocks": ["n1", "b"],
    }


def test_for_scripts_a_block_that_is_not_in_force_is_none():
    [asked] = map(as_json, node_rows([], [node_block("n9", active=False, reason="NoSuchNode")]))
    [free] = map(as_json, node_rows([node("n1")], []))
    assert (asked["exists"], asked["blocked"], asked["action"], asked["reason"]) == (False, False, "", "NoSuchNode")
    assert (free["exists"], free["blocked"], free["until"], free["nodeBlocks"]) == (True, False, None, [])


def test_the_table_has_a_line_for_each_node():
    lines = printed([node("n1"), node("n2")], [node_block("n2")]).splitlines()
    assert lines[0].split() == ["NODE", "STATE", "BLOCKED", "BY", "CAUSE"]
    assert [line.split() for line in lines[1:]] == [
        ["n1", "Ready"],
        ["n2", "Ready", "4m", "a", "person", "slow", "disk"],
    ]


def test_a_cause_is_text_and_nothing_else():
    """Neither marks of the console nor bytes that a terminal obeys."""
    out = printed([node("n1")], [node_block("n1", cause="[/bold] a\nb\x1b[2Jc")])
    assert "[/bold] a b [2Jc" in out
    assert "\x1b" not in out
