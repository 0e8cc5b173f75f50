"""A copy that misses nothing and tells nothing twice, whatever becomes of its list and its watches."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from rekindle.controller.informer import Informer, Union
from rekindle.controller.resources import POD, Key, Object, labels_of
from tests.unit.controller.api_server import ApiServer, What, served, until

SELECTOR = "managed=true"
PODS = "/pods$"


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr("rekindle.controller.informer._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("rekindle.controller.informer._LONGEST_PAUSE", 0.02)


def pod(name: str, word: str = "w", **spec) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"managed": "true", "word": word}},
        "spec": spec,
    }


class Told:
    """What a listener was told, in order: the change, the pod and its phase."""

    def __init__(self, copy: Informer | Union) -> None:
        self.changes: list[tuple[str, str]] = []
        copy.listen(self._hear)

    def _hear(self, before: Object | None, after: Object | None) -> None:
        body = after or before
        assert body is not None
        change = "new" if before is None else "changed" if after is not None else "gone"
        self.changes.append((change, body["metadata"]["name"]))


def informer(server: ApiServer, namespace: str | None = "team") -> Informer:
    return Informer(
        server.kube, POD, namespace=namespace, selector=SELECTOR, index=lambda body: labels_of(body).get("word")
    )


@asynccontextmanager
async def running(copy: Informer | Union) -> AsyncIterator[None]:
    """Keeps it current, and has it complete."""
    task = asyncio.create_task(copy.run())
    try:
        await copy.wait_until_listed()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def kinds(server: ApiServer) -> list[str]:
    return [call.kind for call in server.calls]


def start(server: ApiServer, phase: str, *names: str) -> None:
    for name in names:
        server.change(POD, "team", name, {"status": {"phase": phase}}, "status")


async def caught_up(server: ApiServer, copy: Informer | Union) -> None:
    """Until the copy is what the server has."""

    def versions(bodies) -> dict[str, str]:
        ours = [body["metadata"] for body in bodies if labels_of(body).get("managed") == "true"]
        return {metadata["uid"]: metadata["resourceVersion"] for metadata in ours}

    await until(lambda: versions(copy) == versions(server.all(POD)))


def test_what_is_there_and_what_changes_afterwards():
    async def case(server: ApiServer):
        server.make(POD, "team", pod("a"))
        server.make(POD, "team", {"metadata": {"name": "not-ours"}, "spec": {}})
        copy = informer(server)
        told = Told(copy)
        before = copy.is_listed
        async with running(copy):
            assert (before, copy.is_listed) == (False, True)
            assert (len(copy), [body["metadata"]["name"] for body in copy]) == (1, ["a"])
            server.make(POD, "team", pod("b"))
            start(server, "Running", "a", "b")
            server.remove(POD, "team", "a")
            await caught_up(server, copy)
            assert copy.get(Key("team", "a")) is None
            found = copy.get(Key("team", "b"))
            assert found is not None
            assert found["status"] == {"phase": "Running"}
        assert told.changes == [("new", "a"), ("new", "b"), ("changed", "a"), ("changed", "b"), ("gone", "a")]

    served(case)


def test_objects_are_found_by_their_word_as_long_as_it_is_theirs():
    async def case(server: ApiServer):
        server.make(POD, "team", pod("a", "x"))
        server.make(POD, "team", pod("b", "x"))
        copy = informer(server)
        async with running(copy):
            server.change(POD, "team", "a", {"metadata": {"labels": {"word": "y"}}})
            await caught_up(server, copy)
            assert [[body["metadata"]["name"] for body in copy.of(word)] for word in "xyz"] == [["b"], ["a"], []]
            server.remove(POD, "team", "b")
            await caught_up(server, copy)
            assert copy.of("x") == []

    served(case)


def test_an_object_that_is_not_selected_any_more_is_gone():
    async def case(server: ApiServer):
        server.make(POD, "team", pod("a"))
        copy = informer(server)
        async with running(copy):
            server.change(POD, "team", "a", {"metadata": {"labels": {"managed": None}}})
            await until(lambda: not len(copy))

    served(case)


@pytest.mark.parametrize("what", [What.BROKEN, What.ENDED])
def test_after_a_break_it_goes_on_from_the_last_change(what):
    async def case(server: ApiServer):
        server.make(POD, "team", pod("a"))
        for changes in (2, 0, 1):
            server.fault("WATCH", PODS, what, at=changes)
        copy = informer(server)
        told = Told(copy)
        async with running(copy):
            for name in "bcde":
                server.make(POD, "team", pod(name))
            start(server, "Running", *"abcde")
            await caught_up(server, copy)
        assert told.changes == [("new", name) for name in "abcde"] + [("changed", name) for name in "abcde"]
        assert kinds(server).count("LIST") == 1
        assert kinds(server).count("WATCH") == 4

    served(case)


def test_a_watch_that_ends_at_once_again_and_again_is_not_asked_for_without_a_pause(monkeypatch):
    async def case(server: ApiServer):
        monkeypatch.setattr("rekindle.controller.informer._FIRST_PAUSE", 3600.0)
        server.fault("WATCH", PODS, What.ENDED, times=1000)
        copy = informer(server)
        async with running(copy):
            await until(lambda: server.faults[0].hits)
            await asyncio.sleep(0.2)
            assert server.faults[0].hits < 10

    served(case)


def test_after_a_bookmark_it_goes_on_from_there():
    async def case(server: ApiServer):
        copy = informer(server)
        server.fault("WATCH", PODS, What.ENDED, at=1)
        async with running(copy):
            await until(lambda: server.watches)
            for _ in range(3):
                server.make(POD, "elsewhere", pod("x"))
                server.remove(POD, "elsewhere", "x")
            server.bookmark()
            server.forget()
            server.make(POD, "team", pod("a"))
            await caught_up(server, copy)
        assert kinds(server) == ["LIST", "WATCH", "WATCH"]

    served(case)


@pytest.mark.parametrize("what", [What.ERROR, 410])
def test_where_its_version_is_too_old_the_difference_is_told(what):
    """Of what happened meanwhile: one is deleted, one changed, one new, one deleted and made again."""

    async def case(server: ApiServer):
        for name in ("changed", "deleted", "again", "same"):
            server.make(POD, "team", pod(name))
        ended = server.fault("WATCH", PODS, What.SILENT)
        server.fault("WATCH", PODS, what)
        copy = informer(server)
        told = Told(copy)
        async with running(copy):
            await until(lambda: ended.hits)
            told.changes.clear()
            start(server, "Running", "changed")
            server.remove(POD, "team", "deleted")
            server.remove(POD, "team", "again")
            server.make(POD, "team", pod("again"))
            server.make(POD, "team", pod("new"))
            server.forget()
            ended.release.set()
            await caught_up(server, copy)
        wanted = [("gone", "deleted"), ("changed", "again"), ("changed", "changed"), ("new", "new")]
        assert told.changes == wanted
        assert sorted(body["metadata"]["name"] for body in copy.of("w")) == ["again", "changed", "new", "same"]

    served(case)


def test_a_second_list_tells_nothing_of_what_is_the_same():
    """A watch says the kind of an object, a list does not."""

    async def case(server: ApiServer):
        server.make(POD, "team", pod("a"))
        server.fault("WATCH", PODS, What.ENDED, at=1)
        server.fault("WATCH", PODS, What.ERROR)
        copy = informer(server)
        told = Told(copy)
        async with running(copy):
            start(server, "Running", "a")
            await until(lambda: kinds(server) == ["LIST", "WATCH", "WATCH", "LIST", "WATCH"])
        assert told.changes == [("new", "a"), ("changed", "a")]

    served(case)


@pytest.mark.parametrize("status", [500, 503, 429, 403])
def test_errors_of_the_list_and_of_the_watch_are_tried_again(status):
    async def case(server: ApiServer):
        server.fault("LIST", PODS, status, times=2)
        server.fault("WATCH", PODS, status, times=2)
        server.make(POD, "team", pod("a"))
        copy = informer(server)
        told = Told(copy)
        async with running(copy):
            server.make(POD, "team", pod("b"))
            await caught_up(server, copy)
        assert told.changes == [("new", "a"), ("new", "b")]
        assert kinds(server) == ["LIST"] * 3 + ["WATCH"] * 3

    served(case)


def test_a_list_that_breaks_off_between_its_pages_begins_anew(monkeypatch):
    async def case(server: ApiServer):
        monkeypatch.setattr("rekindle.controller.kube._PAGE", 1)
        for name in "abc":
            server.make(POD, "team", pod(name))
        server.fault("LIST", PODS, 410, skip=2)
        copy = informer(server)
        told = Told(copy)
        async with running(copy):
            assert len(copy) == 3
        assert told.changes == [("new", name) for name in "abc"]

    served(case)


def test_a_version_that_is_kept_by_a_silent_watch_loses_nothing():
    async def case(server: ApiServer):
        silent = server.fault("WATCH", PODS, What.SILENT)
        copy = informer(server)
        async with running(copy):
            await until(lambda: silent.hits)
            server.make(POD, "team", pod("a"))
            assert copy.get(Key("team", "a")) is None
            silent.release.set()
            await caught_up(server, copy)

    served(case)


def test_several_namespaces_are_one_copy():
    async def case(server: ApiServer):
        server.make(POD, "team", pod("a"))
        server.make(POD, "others", pod("b"))
        server.make(POD, "third", pod("c"))
        late = server.fault("LIST", "/namespaces/others/pods$", What.LATE)
        copy = Union([informer(server, namespace) for namespace in ("team", "others")])
        told = Told(copy)
        task = asyncio.create_task(copy.run())
        await until(lambda: told.changes == [("new", "a")] and late.hits)
        before = copy.is_listed
        late.release.set()
        await copy.wait_until_listed()
        assert (before, copy.is_listed) == (False, True)
        server.make(POD, "others", pod("d"))
        await until(lambda: len(copy) == 3)
        assert copy.get(Key("team", "b")) is None
        assert copy.get(Key("others", "b")) is not None
        assert [body["metadata"]["name"] for body in copy] == ["a", "b", "d"]
        assert [body["metadata"]["name"] for body in copy.of("w")] == ["a", "b", "d"]
        assert told.changes == [("new", "a"), ("new", "b"), ("new", "d")]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    served(case)


def test_all_namespaces_are_one_list():
    async def case(server: ApiServer):
        server.make(POD, "team", pod("a"))
        server.make(POD, "others", pod("a"))
        copy = informer(server, None)
        async with running(copy):
            assert {str(Key(body["metadata"]["namespace"], body["metadata"]["name"])) for body in copy} == {
                "team/a",
                "others/a",
            }

    served(case)
