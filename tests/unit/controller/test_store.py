"""Of all that is heard of an application the newest counts, in whatever order it comes."""

import itertools

import pytest

from rekindle.controller.resources import Key
from rekindle.controller.store import ApplicationStore

PI = Key("team", "pi")


def body(uid: str, version: int, **metadata):
    return {
        "metadata": {"namespace": "team", "name": "pi", "uid": uid, "resourceVersion": str(version), **metadata},
        "status": {"version": version},
    }


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_an_older_body_never_replaces_a_newer_one_also_of_a_namesake(order):
    bodies = [body("old", 5, finalizers=["x"]), body("new", 9), body("new", 12)]
    store = ApplicationStore(lambda key: None)
    for number in order:
        store.put(bodies[number])
    stored = store.get(PI)
    assert stored is not None
    assert stored["status"] == {"version": 12}


def test_the_end_of_a_namesake_does_not_remove_what_came_after_it():
    store = ApplicationStore(lambda key: None)
    store.put(body("new", 9))
    store.remove(body("old", 5))
    assert store.get(PI) is not None


def test_a_body_whose_last_finalizer_went_is_not_kept():
    store = ApplicationStore(lambda key: None)
    store.put(body("old", 5, finalizers=["x"], deletionTimestamp="2026-01-01T00:00:00Z"))
    assert len(store) == 1
    store.put(body("old", 6, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert len(store) == 0


def test_a_list_tells_what_is_gone_and_not_what_came_after_it():
    told: list[Key] = []
    store = ApplicationStore(told.append)
    for name, version, namespace in (("gone", 3, "team"), ("kept", 4, "team"), ("new", 9, "team"), ("far", 2, "other")):
        store.put(body(f"uid-of-{name}", version, name=name, namespace=namespace))
    told.clear()
    store.replace([body("uid-of-kept", 6, name="kept")], "7", "team")
    assert {one["metadata"]["name"] for one in store} == {"kept", "new", "far"}
    kept = store.get(Key("team", "kept"))
    assert kept is not None
    assert kept["status"] == {"version": 6}
    assert set(told) == {Key("team", "gone"), Key("team", "kept")}


def test_a_list_in_which_an_object_is_as_it_was_before_is_of_a_cluster_that_was_restored():
    store = ApplicationStore(lambda key: None)
    store.put(body("pi", 12))
    store.replace([body("pi", 9)], "11", None)  # an old list: 12 came after it
    with pytest.raises(RuntimeError, match="team/pi is as it was before: the cluster was restored"):
        store.replace([body("pi", 9)], "1000", None)
