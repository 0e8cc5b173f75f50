"""A large job is decided about beside other applications, not before them."""

from __future__ import annotations

import threading

import pytest

from rekindle.controller import reconciler
from rekindle.controller.lifecycle import decide
from rekindle.controller.resources import SPARK_APPLICATION
from tests.unit.controller.test_reconciler import Desk, beside_a_driver


@pytest.mark.parametrize("has_job", [True, False])
def test_what_may_take_seconds_holds_up_nobody_else(monkeypatch, has_job):
    threads: list[threading.Thread] = []

    def noted(view):
        threads.append(threading.current_thread())
        return decide(view)

    async def case(desk: Desk):
        if has_job:
            job = {"name": "j", "vertices": [{"name": "A", "parallelism": 3}]}
            desk.server.change(SPARK_APPLICATION, "team", "pi", {"status": {"recovery": {"job": job}}}, "status")
        monkeypatch.setattr(reconciler, "decide", noted)
        await desk.look()
        assert [thread is threading.main_thread() for thread in threads] == [not has_job]

    beside_a_driver(case)
