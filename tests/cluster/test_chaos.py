"""Faults at random, two at a time, under two pipelines: `make chaos SEED=7 MINUTES=30` for more of them."""

from __future__ import annotations

import os

import pytest

from tests.cluster import api, operators
from tests.cluster.chaos.run import FEWEST, Chaos
from tests.cluster.chaos.subject import VOLUMES, Subject
from tests.cluster.deployment import JOBS, ROOT
from tests.kind.storage import recycle_volumes

SEED, MINUTES = int(os.environ.get("REKINDLE_CHAOS_SEED", "1")), float(os.environ.get("REKINDLE_CHAOS_MINUTES", "0"))
PARTITIONS, SECONDS = 6, 3.0
KINDS = ("keyed", "random")

pytestmark = pytest.mark.timeout(60 * MINUTES + 1500)

AGAIN = {
    "type": "OnFailure",
    "onFailureRetries": 1000,
    "onFailureRetryInterval": 1,
    "onInfrastructureFailureRetries": 1000,
    "onInfrastructureFailureRetryInterval": 1,
    "onSubmissionFailureRetries": 1000,
    "onSubmissionFailureRetryInterval": 1,
    "maxRetryInterval": 2,
}


@pytest.mark.requirement("S6-1", "S6-21", "S7-2", "S7-4", "S7-9", "S7-13", "S7-14", "S7-17")
def test_pipelines_come_out_right_whatever_is_lost(application, claim_template):
    """Each result is as arithmetic says, each partition has one visible version, each journal one writer at a time; a
    stage that was complete runs again only where results were harmed; nothing is left."""
    begun: list[Subject] = []

    def begin(kind: str, number: int) -> Subject:
        living = {str(one) for one in begun} - chaos.ended.keys()
        recycle_volumes(lambda claim: any(claim.startswith(f"{name}-") for name in living))
        app = application(
            f"chaos-{kind}-{number}",
            "long_chain.py",
            kind,
            str(PARTITIONS),
            str(SECONDS),
            executor={"instances": 2},
            recovery={"storage": {"claimTemplate": claim_template}, "volumes": VOLUMES},
            restartPolicy=AGAIN,
        )
        begun.append(Subject(app.apply()))
        return begun[-1]

    chaos = Chaos(KINDS, begin, SEED, ROOT / ".build" / "chaos" / f"seed-{SEED}.log")
    chaos.run(MINUTES)
    assert chaos.done.total() >= FEWEST, chaos.done
    assert len(chaos.ended) == len(begun)
    assert sum(one["seen"] for one in chaos.ended.values()) >= len(begun) - 1
    for kind in ("pods", "persistentvolumeclaims", "services", "configmaps"):
        api.until(f"no {kind} are left", lambda: not api.items(kind, JOBS, "rekindle.dev/managed=true"), 90)  # noqa: B023
    api.until("an operator runs", operators.pods, 60)
