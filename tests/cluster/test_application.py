"""One Python application from `kubectl apply` to its end, with what it stands on killed under it."""

import pytest

from tests.cluster import operators
from tests.cluster.marks import beside

pytestmark = pytest.mark.timeout(600)

SLOW = ("1000", "3", "6")


@beside
def test_an_application_runs_to_its_end(application):
    """With the longest name that there is."""
    app = application("n" * 63, "pi.py", "1000").apply()
    app.wait_for("COMPLETED", "FAILED", seconds=180)
    assert app.state == "COMPLETED", app.tell()
    assert "counted 1000" in app.log()
    assert app.reasons == ["SubmissionStarted", "DriverRunning", "Completed"]
    assert app.condition("Succeeded")["status"] == "True"
    assert app.status["observedGeneration"] == 1
    assert [one["reason"] for one in app.events()].count("SparkApplicationCompleted") == 1
    assert app.executors() == []


def test_a_killed_driver_is_followed_by_another_and_a_killed_operator_changes_nothing_for_what_runs(application):
    app = application("killed", "pi.py", *SLOW).apply()
    app.wait_for_executor()
    app.kill_driver()
    app.wait_until("the second attempt", lambda status: status.get("attempt") == 2)
    app.wait_for_executor()
    second = app.driver()["metadata"]["uid"]
    operators.kill()
    app.wait_for("COMPLETED", "FAILED", seconds=180)
    assert app.state == "COMPLETED", app.tell()
    assert "counted 1000" in app.log()
    assert app.reasons == [
        "SubmissionStarted",
        "DriverRunning",
        "Killed",
        "RerunStarted",
        "DriverRunning",
        "Completed",
    ]
    assert "the driver was killed (SIGKILL, exit code 137)" in app.status["transitions"][2]["message"]
    assert app.status["restarts"] == {"infrastructure": 1}
    assert len(app.drivers()) == 2
    assert (app.status["attempt"], app.driver()["metadata"]["uid"]) == (2, second)


@beside
def test_a_scala_program_runs(application):
    """Spark's own SQL shell: its main class is Scala, and every Spark has it."""
    app = application(
        "scala",
        type="Scala",
        mainClass="org.apache.spark.sql.hive.thriftserver.SparkSQLCLIDriver",
        mainApplicationFile="local:///opt/spark/jars/spark-core_2.13-4.3.0.jar",
        arguments=["-e", "SELECT sum(id) FROM range(1000)"],
        sparkConf={"spark.sql.catalogImplementation": "in-memory"},
    ).apply()
    app.wait_for("COMPLETED", "FAILED", seconds=180)
    assert app.state == "COMPLETED", app.tell()
    assert "499500" in app.log()
