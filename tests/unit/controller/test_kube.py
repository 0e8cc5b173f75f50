"""What becomes of the API server's answers, and of none."""

from urllib.request import getproxies_environment

import pytest

from rekindle.controller import kube as module
from rekindle.controller.kube import Gone, Kube, KubeError, Refused, Taken, Unavailable
from rekindle.controller.resources import CONFIG_MAP, LEASE, NODE, POD, SPARK_APPLICATION
from tests.unit.controller.api_server import ApiServer, What, served


def config_map(name: str, **data: str):
    return {"metadata": {"name": name}, "data": data}


def names(items) -> list[str]:
    return [item["metadata"]["name"] for item in items]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Refused),
        (401, Refused),
        (403, Refused),
        (404, Gone),
        (405, Refused),
        (409, Taken),
        (410, Gone),
        (413, Refused),
        (422, Refused),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
        (504, Unavailable),
    ],
)
def test_an_answer_that_is_no_success_becomes_the_error_of_its_status(status, kind):
    async def case(server: ApiServer):
        server.fault("GET", "/configmaps/a$", status, message="exceeded quota: of the team")
        with pytest.raises(KubeError) as caught:
            await server.kube.get(CONFIG_MAP, "team", "a")
        assert (type(caught.value), caught.value.status) == (kind, status)
        assert str(caught.value) == "exceeded quota: of the team"

    served(case)


@pytest.mark.parametrize("what", [What.LOST, What.DROPPED])
def test_a_connection_that_is_lost_is_unavailable(what):
    """Twice: the client library sends a GET again on a new connection."""

    async def case(server: ApiServer):
        server.fault("GET", "/configmaps/a$", what, times=2)
        with pytest.raises(Unavailable, match="GET /api/v1/namespaces/team/configmaps/a: ") as caught:
            await server.kube.get(CONFIG_MAP, "team", "a")
        assert caught.value.status == 0

    served(case)


def test_a_creation_is_never_sent_twice():
    async def case(server: ApiServer):
        server.fault("POST", "/configmaps$", What.DROPPED)
        with pytest.raises(Unavailable):
            await server.kube.create(CONFIG_MAP, "team", config_map("a"))
        assert server.written() == ["POST /api/v1/namespaces/team/configmaps"]

    served(case)


def test_a_server_that_is_not_there_is_unavailable():
    async def case(server: ApiServer):
        kube = server.connect()
        await server.stop()
        with pytest.raises(Unavailable):
            await kube.get(CONFIG_MAP, "team", "a")

    served(case)


def test_an_answer_that_does_not_come_in_time_is_unavailable(monkeypatch):
    async def case(server: ApiServer):
        monkeypatch.setitem(Kube._send.__kwdefaults__, "timeout", 0.3)
        server.fault("POST", "/configmaps$", What.LATE)
        with pytest.raises(Unavailable):
            await server.kube.create(CONFIG_MAP, "team", config_map("a"))

    served(case)


def test_a_success_that_is_not_json_is_unavailable():
    async def case(server: ApiServer):
        server.make(CONFIG_MAP, "team", config_map("a"))
        server.fault("GET", "/configmaps/a$", What.GARBLED)
        with pytest.raises(Unavailable, match="not JSON"):
            await server.kube.get(CONFIG_MAP, "team", "a")

    served(case)


def test_an_error_without_a_status_object_is_told_with_its_text():
    async def case(server: ApiServer):
        server.fault("GET", "/configmaps/a$", What.GARBLED, status=502)
        with pytest.raises(Unavailable, match="<html>"):
            await server.kube.get(CONFIG_MAP, "team", "a")

    served(case)


def test_a_name_that_is_taken():
    async def case(server: ApiServer):
        await server.kube.create(CONFIG_MAP, "team", config_map("a", x="1"))
        with pytest.raises(Taken, match='configmaps "a" already exists'):
            await server.kube.create(CONFIG_MAP, "team", config_map("a", x="2"))
        assert (await server.kube.get(CONFIG_MAP, "team", "a"))["data"] == {"x": "1"}

    served(case)


def test_an_object_is_replaced_only_where_it_has_not_changed_since():
    async def case(server: ApiServer):
        read = await server.kube.create(LEASE, "team", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})
        stored = await server.kube.replace(LEASE, "team", {**read, "spec": {"holderIdentity": "b"}})
        with pytest.raises(Taken):
            await server.kube.replace(LEASE, "team", {**read, "spec": {"holderIdentity": "c"}})
        await server.kube.replace(LEASE, "team", {**stored, "spec": {"holderIdentity": "d"}})
        assert server.all(LEASE)[0]["spec"] == {"holderIdentity": "d"}

    served(case)


def test_a_status_is_patched_apart_from_the_rest():
    async def case(server: ApiServer):
        server.make(SPARK_APPLICATION, "team", {"metadata": {"name": "pi"}, "spec": {"image": "x"}})
        both = {"spec": {"image": "y"}, "status": {"attempt": 1}}
        await server.kube.patch(SPARK_APPLICATION, "team", "pi", both, subresource="status")
        stored = await server.kube.get(SPARK_APPLICATION, "team", "pi")
        assert (stored["spec"], stored["status"]) == ({"image": "x"}, {"attempt": 1})

    served(case)


def test_only_the_very_object_is_deleted():
    async def case(server: ApiServer):
        made = server.make(POD, "team", {"metadata": {"name": "p"}, "spec": {}})
        assert await server.kube.delete(POD, "team", "p", uid="of-another") is False
        assert server.all(POD)
        assert await server.kube.delete(POD, "team", "p", uid=made["metadata"]["uid"]) is True
        assert not server.all(POD)
        assert await server.kube.delete(POD, "team", "p") is False

    served(case)


def test_a_deletion_that_is_refused_is_not_taken_for_done():
    async def case(server: ApiServer):
        server.make(POD, "team", {"metadata": {"name": "p"}, "spec": {}})
        server.fault("DELETE", "/pods/p$", 403)
        with pytest.raises(Refused):
            await server.kube.delete(POD, "team", "p")

    served(case)


def test_a_pod_on_a_node_is_deleted_with_its_grace_or_without():
    async def case(server: ApiServer):
        server.make(POD, "team", {"metadata": {"name": "p"}, "spec": {"nodeName": "n1"}})
        await server.kube.delete(POD, "team", "p")
        assert "deletionTimestamp" in server.all(POD)[0]["metadata"]
        await server.kube.delete(POD, "team", "p", grace=0)
        assert not server.all(POD)

    served(case)


def test_a_list_is_read_page_by_page(monkeypatch):
    async def case(server: ApiServer):
        monkeypatch.setattr(module, "_PAGE", 2)
        wanted = [f"m{number}" for number in range(5)]
        for name in wanted:
            server.make(CONFIG_MAP, "team", config_map(name))
        server.make(CONFIG_MAP, "others", config_map("of-others"))
        listed = server.version
        items, version = await server.kube.list_all(CONFIG_MAP, "team")
        assert (names(items), version) == (wanted, str(listed))
        assert [call.kind for call in server.calls] == ["LIST"] * 3

    served(case)


def test_a_list_whose_next_page_is_too_old_is_gone(monkeypatch):
    async def case(server: ApiServer):
        monkeypatch.setattr(module, "_PAGE", 1)
        for name in ("a", "b"):
            server.make(CONFIG_MAP, "team", config_map(name))
        server.fault("LIST", "/configmaps$", 410, skip=1)
        with pytest.raises(Gone):
            await server.kube.list_all(CONFIG_MAP, "team")

    served(case)


def test_a_list_of_all_namespaces_with_a_selector():
    async def case(server: ApiServer):
        for namespace, label in (("team", "true"), ("others", "true"), ("third", "false")):
            labels = {"managed": label}
            server.make(POD, namespace, {"metadata": {"name": f"p-{namespace}", "labels": labels}, "spec": {}})
        items, _ = await server.kube.list_all(POD, None, "managed=true")
        assert names(items) == ["p-others", "p-team"]

    served(case)


def test_of_a_log_come_the_last_lines():
    async def case(server: ApiServer):
        server.make(POD, "team", {"metadata": {"name": "p"}, "spec": {}})
        server.logs["p"] = "".join(f"line {number}\n" for number in range(100))
        assert await server.kube.log("team", "p", "c", lines=2, most_bytes=1000) == "line 98\nline 99\n"
        assert await server.kube.log("team", "p", "c", lines=2, most_bytes=9) == "line 98\nl"
        assert server.calls[-1].query["container"] == "c"
        with pytest.raises(Gone):
            await server.kube.log("team", "q", "c", lines=2, most_bytes=9)

    served(case)


def test_a_log_that_is_cut_within_a_character_is_text_all_the_same():
    async def case(server: ApiServer):
        server.make(POD, "team", {"metadata": {"name": "p"}, "spec": {}})
        server.logs["p"] = "für"
        assert await server.kube.log("team", "p", "c", lines=1, most_bytes=2) == "f\N{REPLACEMENT CHARACTER}"

    served(case)


async def watched(server: ApiServer, version: int, most: int) -> list[tuple[str, str]]:
    """The first changes that a watch of the ConfigMaps tells."""
    told: list[tuple[str, str]] = []
    async for kind, body in server.kube.watch(CONFIG_MAP, "team", "", str(version)):
        told.append((kind, body["metadata"].get("name", "")))
        if len(told) == most:
            break
    return told


def test_a_watch_tells_what_changed_after_its_version():
    async def case(server: ApiServer):
        server.make(CONFIG_MAP, "team", config_map("before"))
        version = server.version
        server.make(CONFIG_MAP, "team", config_map("a"))
        server.change(CONFIG_MAP, "team", "a", {"data": {"x": "1"}})
        server.bookmark()
        server.remove(CONFIG_MAP, "team", "a")
        told = [("ADDED", "a"), ("MODIFIED", "a"), ("BOOKMARK", ""), ("DELETED", "a")]
        assert await watched(server, version, 4) == told

    served(case)


@pytest.mark.parametrize(
    ("what", "kind"), [(What.ERROR, Gone), (410, Gone), (What.BROKEN, Unavailable), (500, Unavailable), (403, Refused)]
)
def test_a_watch_that_ends_badly_says_why(what, kind):
    async def case(server: ApiServer):
        server.fault("WATCH", "/configmaps$", what)
        server.make(CONFIG_MAP, "team", config_map("a"))
        with pytest.raises(kind):
            await watched(server, 0, 2)

    served(case)


def test_a_watch_that_the_server_ends_just_ends():
    async def case(server: ApiServer):
        server.fault("WATCH", "/configmaps$", What.ENDED, at=1)
        server.make(CONFIG_MAP, "team", config_map("a"))
        assert await watched(server, 0, 2) == [("ADDED", "a")]

    served(case)


def test_a_watch_takes_an_object_of_a_megabyte():
    async def case(server: ApiServer):
        server.make(CONFIG_MAP, "team", config_map("big", data="x" * 1_000_000))
        assert await watched(server, 0, 1) == [("ADDED", "big")]

    served(case)


def test_a_watch_takes_the_largest_object_as_json_has_it():
    """The API server writes a `<` as six bytes: one and a half megabytes that etcd takes are nine in a watch."""

    async def case(server: ApiServer):
        server.make(CONFIG_MAP, "team", config_map("big", data="x" * 9_000_000))
        server.make(CONFIG_MAP, "team", config_map("small"))
        assert await watched(server, 0, 2) == [("ADDED", "big"), ("ADDED", "small")]

    served(case)


def test_it_connects_by_the_kubeconfig(tmp_path, monkeypatch):
    async def case(server: ApiServer):
        path = tmp_path / "config"
        path.write_text(server.kubeconfig(token="secret"))
        monkeypatch.setenv("KUBECONFIG", str(path))
        kube = await Kube.connect()
        server.make(NODE, "", {"metadata": {"name": "n1"}})
        assert (await kube.get(NODE, None, "n1"))["metadata"]["name"] == "n1"
        assert server.calls[-1].authorization == "Bearer secret"
        await kube.close()

    served(case)


def test_passwords_of_a_netrc_are_not_mixed_with_its_token(tmp_path, monkeypatch):
    async def case(server: ApiServer):
        (tmp_path / "config").write_text(server.kubeconfig(token="secret"))
        (tmp_path / "netrc").write_text("default login ann password hers\n")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        for name in getproxies_environment():
            monkeypatch.delenv(f"{name}_proxy", raising=False)
            monkeypatch.delenv(f"{name}_PROXY".upper(), raising=False)
        monkeypatch.setenv("no_proxy", "elsewhere")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        kube = await Kube.connect()
        try:
            assert await kube.find(POD, "team", "p") is None
        finally:
            await kube.close()

    served(case)


@pytest.mark.parametrize(("proxy", "asked"), [("", False), ("http://127.0.0.1:9", True)])
def test_a_proxy_of_the_environment_is_used(proxy, asked, tmp_path, monkeypatch):
    for name in ("https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", proxy)

    async def case(server: ApiServer):
        (tmp_path / "config").write_text(server.kubeconfig())
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        kube = await Kube.connect()
        try:
            if asked:
                with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9"):
                    await kube.find(POD, "team", "p")
            else:
                assert await kube.find(POD, "team", "p") is None
        finally:
            await kube.close()

    served(case)


@pytest.mark.parametrize("text", [None, "no: kubeconfig"])
def test_without_a_cluster_it_says_where_it_looked(text, tmp_path, monkeypatch):
    async def case(server: ApiServer):
        path = tmp_path / "config"
        if text is not None:
            path.write_text(text)
        monkeypatch.setenv("KUBECONFIG", str(path))
        with pytest.raises(OSError, match=str(path)):
            await Kube.connect()

    served(case)
