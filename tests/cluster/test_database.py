"""A pipeline from a database to a database, whose driver is lost between the two."""

from __future__ import annotations

import pytest

from tests.cluster import database, operators
from tests.cluster.api import Application, until
from tests.cluster.marks import beside
from tests.cluster.test_lost_volume import finished
from tests.kind.kubectl import given_kubeconfig

pytestmark = [
    beside,
    pytest.mark.timeout(500),
    pytest.mark.skipif(given_kubeconfig() is not None, reason="the server's programs come by way of our own nodes"),
]

ROWS, CUSTOMERS, SPLITS, PARTITIONS, SECONDS = 20_000, 97, 12, 4, 12
NUMBERS = f"generate_series(1, {ROWS}) AS n"
TOTALS = "SELECT customer, sum(cents)::bigint AS cents, count(*) AS n FROM orders GROUP BY customer"


def metrics(app: Application) -> list[str]:
    """What the operator tells of the application's sources and sinks."""
    lines = operators.metrics().splitlines()
    return [one for one in lines if f'application="{app.name}"' in one and one.startswith("rekindle_s")]


@pytest.mark.requirement("S4-2", "S4-31", "S5-8", "S6-1", "S7-9")
def test_a_driver_is_lost_between_a_table_that_is_read_once_and_one_that_is_written_once(
    application, claim_template, installed
):
    with database.server(installed.spark) as server:
        server.execute(
            f"CREATE TABLE orders AS SELECT n AS id, n % {CUSTOMERS} AS customer, n * 7 AS cents FROM {NUMBERS}"
        )
        app = application(
            "orders",
            "orders.py",
            *(database.URL, "orders", str(SPLITS), str(PARTITIONS), str(SECONDS), "totals"),
            driver={"env": database.PASSWORD_VARIABLE},
            executor={"instances": 2, "env": database.PASSWORD_VARIABLE},
            recovery={"storage": {"claimTemplate": claim_template}},
        ).apply()
        app.wait_until("two of the slow partitions are there", lambda status: finished(status, "worked") >= 2, 300)
        told = metrics(app)
        assert [one for one in told if 'source="orders",state="finished"' in one and one.endswith(f" {SPLITS}.0")], told
        assert [one for one in told if 'sink="totals",state="pending"' in one and one.endswith(" 1.0")], told
        app.kill_driver()
        app.wait_until("the second attempt", lambda status: status.get("attempt") == 2)
        app.wait_for("COMPLETED", "FAILED", seconds=240)
        assert app.state == "COMPLETED", app.tell()
        assert server.execute(
            f"SELECT count(*) FROM totals FULL JOIN ({TOTALS}) AS right_ones "
            "USING (customer, cents, n) WHERE totals.n IS NULL OR right_ones.n IS NULL"
        ) == ["0"]
        assert server.execute("SELECT count(*) FROM totals") == [str(CUSTOMERS)]
        assert server.execute("SELECT count(*) FROM rekindle_commits") == ["1"]
        assert server.statements("COPY", '"customer"', "FROM orders") == SPLITS
        (report,) = app.said("report")
        assert report["drivers"] == 2
        assert {one["name"]: one["rerun"] for one in report["stages"]}["orders"] == 0
        (sink,) = app.status["sinks"]
        assert (sink["commit"], sink["numWrittenPartitions"], sink["numRecordsSend"]) == ("Committed", 2, CUSTOMERS)
        until("it has told so", lambda: "SinkCommitted" in {one["reason"] for one in app.events()}, 30, tell=app.tell)
