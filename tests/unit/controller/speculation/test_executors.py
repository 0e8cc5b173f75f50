"""Executors, read from their pods."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.controller.speculation.clone import FIRST_ID, clone_of
from rekindle.controller.speculation.executors import Executor, executors_of
from tests.unit.controller.speculation.stored_pods import executor_pod


def pod(
    number: int = 1, *, phase: str | None = "Running", conditions: tuple[Any, ...] = (), **spec: Any
) -> dict[str, Any]:
    found = executor_pod(number, **spec)
    del found["metadata"]["deletionTimestamp"]
    found["status"] = {"phase": phase, "conditions": list(conditions)} if phase else {}
    return found


def read(stored: dict[str, Any]) -> Executor:
    (executor,) = executors_of([stored])
    return executor


def test_one_that_runs():
    stored = pod(7, nodeName="n1")
    assert read(stored) == Executor(
        id=7,
        pod=stored["metadata"]["name"],
        uid=stored["metadata"]["uid"],
        node="n1",
        is_running=True,
        is_terminating=False,
        is_duplicate=False,
        profile="0",
        grace=30,
    )
    assert read(stored).is_live


def test_one_that_is_being_deleted_runs_and_takes_no_tasks():
    executor = read(executor_pod(7))
    assert (executor.is_running, executor.is_terminating, executor.is_live) == (True, True, False)


@pytest.mark.requirement("S2-47")
def test_a_duplicate_is_known_by_itself():
    clone = clone_of(pod(7), FIRST_ID, avoid_nodes=())
    clone["metadata"] |= {"uid": "u", "creationTimestamp": "2026-11-22T21:03:38Z"}
    assert read(clone).is_duplicate
    assert (read(clone).id, read(clone).node, read(clone).is_running) == (FIRST_ID, "", False)


def test_one_that_waits_for_a_place_is_live():
    waits = read(pod(phase="Pending", nodeName=None))
    assert (waits.node, waits.is_running, waits.is_live) == ("", False, True)


def test_one_that_the_operator_has_drained_is_told_from_one_that_its_driver_removes():
    stored = executor_pod(7)
    assert not read(stored).is_drained
    stored["metadata"]["deletionGracePeriodSeconds"] = 3600
    assert read(stored).is_drained


@pytest.mark.parametrize("phase", ["Pending", None])
def test_one_of_which_nothing_is_known_yet_has_not_ended(phase):
    assert not read(pod(phase=phase)).is_running


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_one_that_has_ended_is_none(phase):
    assert executors_of([pod(phase=phase)]) == []


@pytest.mark.parametrize("said", ["", "driver", "-1", "1e3", "12345678901", "9" * 5000])
def test_a_pod_without_a_number_is_none_of_sparks(said):
    assert executors_of([pod(labels={"spark-exec-id": said})]) == []


def test_they_come_in_the_order_of_their_numbers():
    assert [one.id for one in executors_of([pod(10), pod(9), pod(FIRST_ID), pod(1)])] == [1, 9, 10, FIRST_ID]
