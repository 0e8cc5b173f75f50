"""A source that is read by splits, on executors that ask the driver's pod for them."""

from __future__ import annotations

import pytest

from tests.cluster.api import until
from tests.cluster.marks import beside
from tests.cluster.test_lost_driver import stored

pytestmark = [pytest.mark.timeout(500), beside]

SUBTASKS, SPLITS, SECONDS, LONG = 2, 12, 1, 45


@pytest.mark.requirement("S4-1", "S4-2", "S4-4", "S4-16", "S4-31")
def test_a_killed_driver_costs_what_was_being_read_and_nobody_reads_a_split_twice(application, claim_template):
    """One subtask reads the long split while the other reads all the rest, and is stored. The source would name its
    splits in another order if it were asked again."""
    app = application(
        "splits",
        "splits.py",
        str(SUBTASKS),
        str(SPLITS),
        str(SECONDS),
        str(LONG),
        "sleep",
        "/tmp/out",
        executor={"instances": 2},
        recovery={"storage": {"claimTemplate": claim_template}},
    ).apply()
    until("one subtask is stored", lambda: stored(app, "ticks") == 1, 240, tell=app.tell)
    app.kill_driver()
    app.wait_until("the second attempt", lambda status: status.get("attempt") == 2)
    app.wait_for("COMPLETED", "FAILED", seconds=240)
    assert app.state == "COMPLETED", app.tell()
    assert app.said("right") == [True]
    (report,) = app.said("report")
    assert report["drivers"] == 2
    assert report["recoveries"][0]["restarted"] == {"ticks": 1}
    assert [(one["splits"], one["settled"]) for one in report["sources"]] == [(SPLITS, SPLITS)]
    (told,) = app.status["sources"]
    assert (told["name"], told["subtasks"], told["numSplits"]) == ("ticks", SUBTASKS, SPLITS)
    (shares,) = app.said("shares")
    assert sum(shares) == SPLITS
