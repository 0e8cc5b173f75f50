"""A loop whose driver is lost."""

from __future__ import annotations

import pytest

from tests.cluster.api import Application, until
from tests.cluster.marks import beside
from tests.cluster.test_lost_driver import STORE
from tests.kind.kubectl import kubectl
from tests.kind.processes import Failed

pytestmark = [pytest.mark.timeout(500), beside]

CITIES, SECONDS = 8, 3


def records(app: Application) -> int:
    """How many the log of the loop has, as the driver's pod sees the store."""
    driver = app.driver()
    if driver is None or driver["status"].get("phase") != "Running":
        return 0
    script = f"ls {STORE}/runs/0001/loops/*/activations 2>/dev/null || :"
    try:
        return len(kubectl("exec", driver["metadata"]["name"], "-n", app.namespace, "--", "sh", "-c", script).split())
    except Failed:  # its container is not there yet
        return 0


@pytest.mark.requirement("S9-4", "S6-1", "S10-2")
def test_the_next_driver_goes_on_behind_the_last_activation(application, claim_template):
    """A record for the driver, then one for each activation; five are some that count."""
    app = application(
        "loop",
        "loop.py",
        str(CITIES),
        str(SECONDS),
        "/tmp/out",
        executor={"instances": 2},
        recovery={"storage": {"claimTemplate": claim_template}},
    ).apply()
    until("some activations are behind it", lambda: records(app) >= 5, 240, tell=app.tell)
    app.kill_driver()
    app.wait_until("the second attempt", lambda status: status.get("attempt") == 2)
    app.wait_for("COMPLETED", "FAILED", seconds=240)
    assert app.state == "COMPLETED", app.tell()
    assert app.said("right") == [True]
    (calls,) = app.said("calls")
    assert calls <= CITIES - 2, "one for the columns, and none for the three that were done"
    (report,) = app.said("report")
    assert report["drivers"] == 2
    assert [scope["activations"] for scope in report["loops"][0]["scopes"]] == [CITIES + 1]
