"""`recovery.shuffleVolumes`: an application in no need of our library loses an executor, and no map output with it."""

from __future__ import annotations

import pytest

from tests.cluster import api
from tests.cluster.api import Application, until
from tests.kind.storage import CLASS, recycle_volumes

pytestmark = pytest.mark.timeout(500)

MAPS, YOUNGEST = 4, 45


def lose_an_executor(application, **spec) -> Application:
    """One of one is deleted by force when the shuffle is written."""
    app = application("shuffled", "shuffled.py", "180", executor={"instances": 1}, **spec).apply()
    app.wait_for_executor()
    until("the shuffle is written", lambda: app.said("shuffled"), 120, tell=app.tell)
    [pod] = app.executors()
    api.kill(app.namespace, pod["metadata"]["name"])
    app.wait_for("COMPLETED", "FAILED", seconds=240)
    assert app.state == "COMPLETED", app.tell()
    return app


def test_map_outputs_outlive_their_executor(application):
    recycle_volumes()
    conf = {"spark.kubernetes.legacy.useReadWriteOnceAccessMode": "true"}
    volumes = {"size": "1Gi", "storageClassName": CLASS}
    app = lose_an_executor(application, recovery={"shuffleVolumes": volumes}, sparkConf=conf)
    assert app.said("shuffled") == [{"maps": MAPS, "right": True}]
    assert app.said("again") == [{"maps": MAPS, "right": True, "replaced": True}], app.tell()
