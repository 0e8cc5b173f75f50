"""`rekindle nodes`, `block` and `unblock` from their arguments to an API server and back to the terminal."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from rekindle import cli
from rekindle.api.node_block import parse_instant
from rekindle.controller.resources import NODE, NODE_BLOCK
from tests.unit.controller.api_server import NO_CERTIFICATES, ApiServer, served
from tests.unit.remote.objects import at, node, node_block


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Prepare a server, run a command line on it; exit code, standard output and errors, and the server then."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    for name, value in NO_CERTIFICATES.items():
        monkeypatch.setenv(name, value)

    def run(line, prepare=lambda server: None):
        seen = []

        async def case(server: ApiServer):
            (tmp_path / "config").write_text(server.kubeconfig())
            prepare(server)
            seen.extend([await asyncio.to_thread(cli.main, line.split()), server])

        served(case)
        code, server = seen
        told = capsys.readouterr()
        return code, told.out, told.err, server

    return run


def with_nodes(*blocks):
    def prepare(server):
        for name in ("n1", "n2"):
            server.make(NODE, "", node(name))
        for body in blocks:
            server.make(NODE_BLOCK, "", body)

    return prepare


def test_nodes_as_a_table(command):
    block = node_block("n2", active=False, reason="TooManyBlocked", applications=["team/pi"])
    code, out, err, _ = command("nodes", with_nodes(block))
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["NODE", "n1", "n2"]
    assert "asked, not active: TooManyBlocked  team/pi  slow disk" in out


def test_nodes_as_json(command):
    code, out, _, _ = command("nodes -o json", with_nodes(node_block("n9")))
    assert code == 0
    assert [(one["node"], one["exists"], one["blocked"]) for one in json.loads(out)] == [
        ("n1", True, False),
        ("n2", True, False),
        ("n9", False, True),
    ]


def test_a_block_lasts_for_the_time_that_was_said(command):
    before = datetime.now(UTC)
    code, out, err, server = command("block n1 --for 10m --evacuate --cause disk", with_nodes())
    [stored] = server.all(NODE_BLOCK)
    end = parse_instant(stored["spec"]["end"])
    assert (code, err) == (0, "")
    assert out.startswith(f"n1 is to be blocked until {stored['spec']['end']}; ")
    assert before + timedelta(minutes=10) <= end <= datetime.now(UTC) + timedelta(minutes=10, seconds=1)
    assert end.microsecond == 0
    assert (stored["spec"]["action"], stored["spec"]["cause"]) == ("MarkBlockedAndEvacuateTasks", "disk")


@pytest.mark.requirement("S3-8")
def test_a_later_end_that_is_there_is_told_and_is_no_failure(command):
    code, out, err, server = command("block n1 --for 10m", with_nodes(node_block("n1", "2999-01-01T00:00:00Z")))
    assert (code, err) == (0, "")
    assert out == "n1 is already blocked until 2999-01-01T00:00:00Z: that is later\n"
    assert server.written() == []


def test_a_node_that_does_not_exist_is_exit_code_3(command):
    code, out, err, _ = command("block n9 --for 10m", with_nodes())
    assert (code, out) == (3, "")
    assert err == "rekindle: there is no node n9; `rekindle nodes` lists them\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("block n1", "--for"),
        ("block n1 --for soon", "'soon' is not a duration; write such as 90s, 10m or 2h"),
        ("block n1 --for 0", "'0' is not between no time and a year; write such as 90s, 10m or 2h"),
        ("block n1 --for=-5m", "'-5m' is not a duration; write such as 90s, 10m or 2h"),
        ("block n1 --for 366d", "'366d' is not between no time and a year"),
        ("block n/1 --for 5m", "'n/1' is no name of a node; `rekindle nodes` lists them"),
        ("block -n team n1 --for 5m", "unrecognized arguments"),
        ("unblock N1", "'N1' is no name of a node"),
        ("nodes -o xml", "invalid choice: 'xml'"),
    ],
)
def test_a_wrong_argument_is_told_with_the_remedy(capsys, line, says):
    with pytest.raises(SystemExit) as caught:
        cli.main(line.split())
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("command_name", ["nodes", "block", "unblock"])
def test_help_has_an_example(capsys, command_name):
    with pytest.raises(SystemExit):
        cli.main([command_name, "--help"])
    shown = capsys.readouterr().out
    assert f"example:\n  rekindle {command_name} " in shown
    assert "--namespace" not in shown


def test_unblock_tells_what_it_deleted_and_who_had_asked(command):
    asked = node_block("pi-slow", node="n1", applications=["team/pi"])
    code, out, err, server = command("unblock n1", with_nodes(node_block("n1"), asked, node_block("n2")))
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "deleted NodeBlock n1, asked for by a person",
        "deleted NodeBlock pi-slow, asked for by team/pi",
        "an application whose tasks are still slow on n1 may ask again",
    ]
    assert [body["metadata"]["name"] for body in server.all(NODE_BLOCK)] == ["n2"]


def test_unblock_of_a_node_without_a_block_is_no_failure(command):
    code, out, _, server = command("unblock n1", with_nodes(node_block("n2")))
    assert (code, out) == (0, "there is no NodeBlock of n1; `rekindle nodes` shows all there are\n")
    assert server.written() == []


@pytest.mark.parametrize("message", ["the server could not find the requested resource", "404 page not found"])
@pytest.mark.parametrize("line", ["nodes", "unblock n1", "block n1 --for 5m"])
def test_a_cluster_that_does_not_know_the_kind_is_told_with_the_remedy(command, line, message):
    def prepare(server):
        with_nodes()(server)
        server.fault(".*", "/nodeblocks", 404, message=message, times=10)

    code, out, err, _ = command(line, prepare)
    assert (code, out) == (3, "")
    assert err == "rekindle: the cluster does not know NodeBlocks: install the chart, or kubectl apply -f crds/\n"


def test_the_kind_that_is_not_known_is_named(command):
    unknown = "404 page not found"
    code, _, err, _ = command("list", lambda server: server.fault("LIST", "/sparkapplications", 404, message=unknown))
    assert code == 3
    assert err.startswith("rekindle: the cluster does not know SparkApplications: ")


@pytest.mark.parametrize(
    ("line", "call", "path"),
    [
        ("nodes", "LIST", "/nodes$"),
        ("nodes", "LIST", "/nodeblocks$"),
        ("block n1 --for 5m", "POST", "/nodeblocks$"),
        ("unblock n1", "DELETE", "/nodeblocks/n1$"),
    ],
)
def test_rights_that_are_missing_are_told_as_the_server_says_it(command, line, call, path):
    says = 'nodeblocks.rekindle.dev is forbidden: User "ann" cannot do that'

    def prepare(server):
        with_nodes(*([] if line.startswith("block") else [node_block("n1", at(4))]))(server)
        server.fault(call, path, 403, message=says)

    code, out, err, _ = command(line, prepare)
    assert (code, out, err) == (3, "", f"rekindle: {says}\n")
