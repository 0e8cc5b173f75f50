"""`recovery.shuffleVolumes`: an application in no need of our library loses an executor, and no map output with it."""

from __future__ import annotations

import pytest

from tests.cluster import api
from tests.cluster.api import until
from tests.cluster.marks import beside, needs_nodes
from tests.kind.storage import CLASS, recycle_volumes

pytestmark = [pytest.mark.timeout(600), beside, needs_nodes]

MAPS = 4


def test_map_outputs_outlive_their_executor(application):
    """The only one is deleted by force when the shuffle is written."""
    recycle_volumes()
    app = application(
        "shuffled",
        "shuffled.py",
        "180",
        recovery={"shuffleVolumes": {"size": "1Gi", "storageClassName": CLASS}},
        sparkConf={"spark.kubernetes.legacy.useReadWriteOnceAccessMode": "true"},
    ).apply()
    app.wait_for_executor()
    until("the shuffle is written", lambda: app.said("shuffled"), 120, tell=app.tell)
    [pod] = app.executors()
    api.kill(app.namespace, pod["metadata"]["name"])
    app.wait_for("COMPLETED", "FAILED", seconds=240)
    assert app.state == "COMPLETED", app.tell()
    assert app.said("shuffled") == [{"maps": MAPS, "right": True}]
    assert app.said("again") == [{"maps": MAPS, "right": True, "replaced": True}], app.tell()
