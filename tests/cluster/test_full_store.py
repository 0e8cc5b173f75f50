"""A store without room: it is named, what is stored stays, and the application goes on when there is room again."""

from __future__ import annotations

import re

import pytest

from tests.cluster.api import until
from tests.cluster.chaos.subject import VOLUMES, Subject
from tests.cluster.test_lost_driver import STORE
from tests.kind import storage

pytestmark = pytest.mark.timeout(500)

PARTITIONS, SECONDS = 2, 8


@pytest.mark.requirement("S7-30")
def test_an_attempt_ends_when_the_store_is_full_and_a_later_one_goes_on(application, claim_template):
    app = application(
        "full",
        "chain.py",
        str(PARTITIONS),
        str(SECONDS),
        "/tmp/out",
        executor={"instances": 2},
        recovery={"storage": {"claimTemplate": claim_template}, "volumes": VOLUMES},
        restartPolicy={"type": "OnFailure", "onFailureRetries": 20, "onFailureRetryInterval": 1, "maxRetryInterval": 2},
    ).apply()
    subject = Subject(app)
    until("the first stage is stored", lambda: ("numbers", 1) in subject.stored(), 240, tell=app.tell)
    with storage.full():
        app.wait_until("the first attempt has ended", lambda status: status.get("attempt", 1) > 1, 120)
    told = "\n".join(one["message"] for one in app.status["transitions"])
    words = rf"ended with exit code 1: store-full: .*no space left in the store {STORE}"
    assert re.search(words, told), app.tell()
    app.wait_for("COMPLETED", "FAILED", seconds=240)
    assert app.state == "COMPLETED", app.tell()
    assert app.said("right") == [True]
    (report,) = app.said("report")
    assert {one["name"]: one["rerun"] for one in report["stages"]}["numbers"] == 0
