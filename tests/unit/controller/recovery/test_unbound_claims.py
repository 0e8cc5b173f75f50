"""A driver that waits for a volume: the status says which claim of the store cannot be mounted, and where to look."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.controller.resources import PERSISTENT_VOLUME_CLAIM, POD
from tests.unit.controller.test_reconciler import Desk, at_desk

TEMPLATE = {"storageClassName": "nfs", "resources": {"requests": {"storage": "10Gi"}}}
NO_VOLUME = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."


def unplaced(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


async def told(desk: Desk, message: str) -> str:
    """What the status says while the scheduler says that."""
    await desk.settle()
    desk.server.change(POD, "team", desk.names.driver_pod, {"status": unplaced(message)}, "status")
    await desk.settle()
    return desk.status.application_state.error_message


def test_a_claim_that_nobody_binds_is_named():
    async def case(desk: Desk):
        await desk.settle()
        name = desk.names.store_claim()
        said = await told(desk, NO_VOLUME)
        assert said.startswith(f"the driver's pod is not scheduled: {NO_VOLUME}; claim {name} (class nfs, ")
        assert said.endswith(
            f"ReadWriteMany, 10Gi) of spec.recovery.storage is Pending; `kubectl describe pvc {name}` tells why"
        )
        assert (await desk.said("Unschedulable"))["note"] == said
        desk.server.change(PERSISTENT_VOLUME_CLAIM, "team", name, {"status": {"phase": "Bound"}}, "status")
        assert "claim" not in await told(desk, "3 node(s) had volume node affinity conflict")

    at_desk(case, recovery={"storage": {"claimTemplate": TEMPLATE}})


def test_a_claim_that_is_not_there_is_named():
    async def case(desk: Desk):
        said = await told(desk, 'persistentvolumeclaim "results" not found')
        assert said.endswith("; claim results is not there (spec.recovery.storage)")

    at_desk(case, recovery={"storage": {"claimName": "results"}})


@pytest.mark.parametrize(
    ("message", "recovery"),
    [
        ("0/3 nodes are available: 3 Insufficient cpu.", {"storage": {"claimTemplate": TEMPLATE}}),
        (NO_VOLUME, {}),
    ],
    ids=["another reason", "another's claim"],
)
def test_of_claims_that_are_not_why_it_waits_nothing_is_said(message, recovery):
    async def case(desk: Desk):
        assert await told(desk, message) == f"the driver's pod is not scheduled: {message}"

    at_desk(case, recovery=recovery)
