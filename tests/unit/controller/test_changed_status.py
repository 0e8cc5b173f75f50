"""A status in which anything was changed, by a person or a bug: the operator goes on, and one driver at a time.

What it stored itself it could believe; what it reads is what anybody with the right to patch has left there.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rekindle.controller.clock import format_time
from rekindle.controller.reading import parse_status
from tests.unit.controller.recovery.test_recovering import Pipeline, half_done
from tests.unit.controller.world import RUNNING, SUCCEEDED, failed

Path = tuple[str | int, ...]

JUNK: list[Any] = [
    None, True, 0, -1, 2, 10**30, 0.5, 1e308, "", "x", "0", "2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
    "RUNNING", "COMPLETED", [], [None], [[0, 1]], {}, {"a": {}}, "y" * 5000,
]  # fmt: skip


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Of all that is in a JSON value, itself not among it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from paths(inner, (*path, key))


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def changed(status: dict[str, Any], where: int, junk: int) -> dict[str, Any]:
    """With one value removed, or exchanged for junk or for another value of the status."""
    status = copy.deepcopy(status)
    places = sorted(paths(status), key=repr)
    *parent, key = places[where % len(places)]
    holder = at(status, tuple(parent))
    if junk == len(JUNK):
        del holder[key]
    else:
        holder[key] = JUNK[junk] if junk < len(JUNK) else copy.deepcopy(at(status, places[junk * where % len(places)]))
    return status


def begun(how: int) -> Pipeline:
    """While the driver runs, when it was lost, and when the next one runs."""
    world = half_done(restartPolicy={"type": "OnFailure", "onFailureRetryInterval": 5})
    if how:
        world.driver_is(failed(137))
        world.settle()
    if how > 1:
        world.now += 600
        world.settle()
        world.driver_is(RUNNING)
        world.settle()
    return world


def comes_to_an_end(world: Pipeline) -> bool:
    """From now on every driver that begins succeeds."""
    for _ in range(12):
        world.settle()
        assert len(world.pods) - len([one for one in world.pods.values() if is_over(one)]) <= 1
        if world.state().is_terminal:
            return True
        world.now += 400
        for pod in world.pods.values():
            if not is_over(pod):
                pod["status"] = SUCCEEDED if pod["status"] == RUNNING else RUNNING
    return False


def is_over(pod: dict[str, Any]) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


changes = st.tuples(st.integers(0, 10**6), st.integers(0, len(JUNK) + 3))


def test_a_restart_is_not_waited_for_longer_than_any_is():
    """By a status that somebody has changed, or an operator whose clock was wrong."""
    world = begun(1)
    assert world.status.next_attempt_time is not None
    world.status = world.status.model_copy(update={"next_attempt_time": "9999-12-31T23:59:59Z"})
    assert world.settle().delay == 300.0  # maxRetryInterval
    assert world.status.next_attempt_time == format_time(world.now + 300.0)
    world.edit(restartPolicy={"type": "OnFailure", "onFailureRetryInterval": 20, "maxRetryInterval": 10})
    assert world.settle().delay == 20.0
    world.now += 20.0
    world.settle()
    assert world.status.attempt == 2


@given(how=st.integers(0, 2), some=st.lists(changes, min_size=1, max_size=3))
def test_an_application_comes_to_its_end_whatever_was_changed_in_its_status(how, some):
    world = begun(how)
    stored = world.status.model_dump(mode="json", by_alias=True)
    for where, junk in some:
        stored = changed(stored, where, junk)
    world.status, problem = parse_status({"status": json.loads(json.dumps(stored))})
    world.status_problem = problem
    assert comes_to_an_end(world), (stored, world.status.transitions)
