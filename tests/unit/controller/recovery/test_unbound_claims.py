"""A driver that waits for a volume: the status says which claim of the store cannot be mounted, and where to look."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.controller.resources import PERSISTENT_VOLUME_CLAIM, POD
from rekindle.controller.submission import names as labels
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
        told_why = (
            f"ReadWriteMany, 10Gi) of spec.recovery.storage is Pending; `kubectl describe pvc {name}` tells why; "
        )
        assert told_why in said
        assert (await desk.said("Unschedulable"))["note"] == said
        desk.server.change(PERSISTENT_VOLUME_CLAIM, "team", name, {"status": {"phase": "Bound"}}, "status")
        assert "claim" not in await told(desk, "3 node(s) had volume node affinity conflict")

    at_desk(case, recovery={"storage": {"claimTemplate": TEMPLATE}})


def test_a_claim_that_is_not_there_is_named():
    async def case(desk: Desk):
        said = await told(desk, 'persistentvolumeclaim "results" not found')
        assert said.endswith("; claim results is not there (spec.recovery.storage)")

    at_desk(case, recovery={"storage": {"claimName": "results"}})


def bound(name: str, class_name: str | None, *modes: str, phase: str = "Bound") -> dict[str, Any]:
    """Another application's claim."""
    metadata = {"name": name, "namespace": "team", "labels": {labels.LABEL_MANAGED: "true"}}
    spec = {"storageClassName": class_name} if class_name else {}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, "accessModes": list(modes)}}


@pytest.mark.parametrize(
    ("others", "says"),
    [
        (
            [
                bound("a", "files", "ReadWriteMany", "ReadWriteOnce"),
                bound("b", "disks", "ReadWriteOnce"),
                bound("c", "ceph", "ReadWriteMany"),
                bound("d", "slow", "ReadWriteMany", phase="Pending"),
                bound("e", None, "ReadWriteMany"),
            ],
            "volumes with ReadWriteMany are in use here of class ceph, files",
        ),
        (
            [bound("b", "disks", "ReadWriteOnce")],
            "no claim of this namespace has a volume with ReadWriteMany: classes whose volumes are on a network offer "
            "it (as NFS and CephFS), and where all pods are on one node, claimTemplate.accessModes may be "
            "[ReadWriteOnce]",
        ),
    ],
)
def test_which_classes_offer_what_an_unbound_claim_asks_for_is_told_from_what_is_in_use(others, says):
    async def case(desk: Desk):
        for one in others:
            desk.server.make(PERSISTENT_VOLUME_CLAIM, "team", one)
        assert (await told(desk, NO_VOLUME)).endswith(f" tells why; {says}")

    at_desk(case, recovery={"storage": {"claimTemplate": TEMPLATE}})


def test_of_a_mode_that_one_node_may_mount_no_advice_is_given():
    async def case(desk: Desk):
        said = await told(desk, NO_VOLUME)
        assert said.endswith("; no claim of this namespace has a volume with ReadWriteOnce")

    at_desk(case, recovery={"storage": {"claimTemplate": {**TEMPLATE, "accessModes": ["ReadWriteOnce"]}}})


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
